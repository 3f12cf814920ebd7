// Array loops over the formula. An array's tail goes through the same batch code as its body, in a padded buffer, so that a result depends
// on its input alone and not on its place.
#pragma once

#include "formula.hpp"
#include "half.hpp"

namespace isrlu {
namespace {

constexpr std::size_t sum_block = 1024;  // elements that are summed in the compute type before float64 takes over

// A piece of an array, padded to a whole batch. Zeros are as good as any number where nobody looks.
template <class V, class S> struct Padded {
    S values[traits<V>::lanes] = {};
    Padded(const S* p, std::size_t n) { std::memcpy(values, p, n * sizeof(S)); }
};

// dst[i] = f(src[i]...), a batch at a time.
template <class V, class F, class S, class... P> void map(F f, std::size_t n, S* dst, const P*... src)
{
    constexpr std::size_t lanes = traits<V>::lanes;
    std::size_t i = 0;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
    for (; i + lanes <= n; i += lanes) write(dst + i, f(read<V>(src + i)...));
    if (const std::size_t rest = n - i; lanes > 1 && rest > 0) {
        S result[lanes];
        write(result, f(read<V>(Padded<V, P>(src + i, rest).values)...));
        std::memcpy(dst + i, result, rest * sizeof(S));
    }
}

template <class S, class Isa> struct Loops {
    using C = compute_t<S>;
    using V = vec<C, Isa>;

    static const S* in(const void* p) { return static_cast<const S*>(p); }
    static S* out(void* p) { return static_cast<S*>(p); }
    static Alpha<V> alpha(double a) { return Alpha<V>(V(static_cast<C>(a))); }

    // One alpha for all. The loop for one alpha knows that it is not 0: 0 goes the way of alphas that come one per element.
    template <class One, class Lanes> static void map_one(const void* src, void* dst, std::size_t n, double a, One one, Lanes lanes)
    {
        const Alpha<V> all = alpha(a);
        if (static_cast<C>(a) != 0) map<V>([=](V x) { return one(x, all); }, n, out(dst), in(src));
        else map<V>([=](V x) { return lanes(x, all); }, n, out(dst), in(src));
    }
    template <class Lanes> static void map_lanes(const void* src, void* dst, std::size_t n, const void* alphas, Lanes lanes)
    {
        map<V>([=](V x, V a) { return lanes(x, Alpha<V>(a)); }, n, out(dst), in(src), static_cast<const C*>(alphas));
    }

    template <Function F, Method M> struct Of {
        template <Alphas A> static V value(V x, Alpha<V> a) { return isrlu::forward<F, M, A>(x, a); }
        template <Alphas A> static V slope(V x, Alpha<V> a)
        {
            V unused;
            return isrlu::backward<F, M, A>(x, constant<V>(1), a, unused);
        }
        static void forward(const void* src, void* dst, std::size_t n, double a) { map_one(src, dst, n, a, value<Alphas::one>, value<Alphas::lanes>); }
        static void forward_lanes(const void* src, void* dst, std::size_t n, const void* alphas) { map_lanes(src, dst, n, alphas, value<Alphas::lanes>); }
        static void derivative(const void* src, void* dst, std::size_t n, double a) { map_one(src, dst, n, a, slope<Alphas::one>, slope<Alphas::lanes>); }
        static void derivative_lanes(const void* src, void* dst, std::size_t n, const void* alphas) { map_lanes(src, dst, n, alphas, slope<Alphas::lanes>); }

        struct FromInput {
            template <Alphas A> static V backward(V x, V grad, Alpha<V> a, V& f) { return isrlu::backward<F, M, A>(x, grad, a, f); }
        };
    };

    template <Function F> struct FromOutput {
        template <Alphas A> static V backward(V y, V grad, Alpha<V> a, V& f)
        {
            f = y;
            return isrlu::backward_from_output<F, A>(y, grad, a);
        }
    };

    // The backward loops, over either of the two structs above.
    template <Function F, class From, Alphas A> static void backward_run(const void* saved, const void* grad_out, void* grad_in, std::size_t n, Alpha<V> a, double* alpha_grad)
    {
        if (!alpha_grad) {
            map<V>([=](V s, V grad) { V unused; return From::template backward<A>(s, grad, a, unused); }, n, out(grad_in), in(saved), in(grad_out));
            return;
        }
        for (std::size_t i = 0; i < n; i += sum_block) {
            V total = constant<V>(0);
            const auto step = [&](V s, V grad) {
                V f;
                const V result = From::template backward<A>(s, grad, a, f);
                total += alpha_gradient<F>(f, grad);
                return result;
            };
            map<V>(step, n - i < sum_block ? n - i : sum_block, out(grad_in) + i, in(saved) + i, in(grad_out) + i);
            *alpha_grad += static_cast<double>(sum(total));
        }
    }
    template <Function F, class From> static void backward(const void* saved, const void* grad_out, void* grad_in, std::size_t n, double a, double* alpha_grad)
    {
        if (static_cast<C>(a) != 0) backward_run<F, From, Alphas::one>(saved, grad_out, grad_in, n, alpha(a), alpha_grad);
        else backward_run<F, From, Alphas::lanes>(saved, grad_out, grad_in, n, alpha(a), alpha_grad);
    }
    template <Function F, class From> static void backward_lanes(const void* saved, const void* grad_out, void* grad_in, std::size_t n, const void* alphas, void* alpha_grads)
    {
        constexpr auto A = Alphas::lanes;
        const C* as = static_cast<const C*>(alphas);
        if (alpha_grads) {  // first, because grad_in may overwrite saved or grad_out
            C* sums = static_cast<C*>(alpha_grads);
            const auto step = [](V s, V grad, V a, V before) {
                V f;
                From::template backward<A>(s, grad, Alpha<V>(a), f);
                return before + alpha_gradient<F>(f, grad);
            };
            map<V>(step, n, sums, in(saved), in(grad_out), as, static_cast<const C*>(sums));
        }
        map<V>([](V s, V grad, V a) { V unused; return From::template backward<A>(s, grad, Alpha<V>(a), unused); }, n, out(grad_in), in(saved), in(grad_out), as);
    }

    template <Method M> static void rsqrt(const void* src, void* dst, std::size_t n, double)
    {
        map<V>([](V x) { return isrlu::rsqrt<M>(x); }, n, out(dst), in(src));
    }
};

}  // namespace
}  // namespace isrlu
