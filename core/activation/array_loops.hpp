// Array loops over the formula, for every type. An array's tail goes through the same batch code as its body, in a padded buffer, so
// that a result depends on its input alone and not on its place.
#pragma once

#include <algorithm>
#include <numeric>
#include <tuple>

#include "activation/formula.hpp"
#include "simd/half.hpp"

namespace isrlu {
namespace {

constexpr std::size_t chunk =
    1024;  // elements of a buffer on the stack, and those that are summed before float64 takes over

// Whether two batches at a time serve: see read_both.
template <class V, class... P> constexpr bool in_pairs = !is_scalar<V> && (std::is_same_v<P, bfloat16> && ...);
template <class V, class... P> constexpr std::size_t portion = traits<V>::lanes * (in_pairs<V, P...> ? 2 : 1);

// A portion is what the loop reads and writes at a time: a batch, or two of them where bfloat16 goes in pairs.
template <class V, bool pair> struct Portion {
    V first;
    template <class T> static Portion at(const T* p) { return {read<V>(p)}; }
    template <class T> void to(T* p) const { write(p, first); }
    template <class F, class... S> static Portion of(F f, S... in) { return {f(in.first...)}; }
};
template <class V> struct Portion<V, true> {
    V even, odd;
    static Portion at(const bfloat16* p) { return {read_even<V>(p), read_odd<V>(p)}; }
    void to(bfloat16* p) const { write_both(p, even, odd); }
    template <class F, class... S> static Portion of(F f, S... in) { return {f(in.even...), f(in.odd...)}; }
};

// dst[i] = f(src[i]...) for a whole number of portions. Everything is inlined here, and this nowhere: a call per batch would cost more than the
// formula, and a second copy of it for the tail would double the library.
//
// 16-bit types are read one portion ahead and written one portion behind, so that what converts them does not wait for the formula in the CPU's queues
// (float16 0.228 and 0.207 ns an element on Zen 3). Where nothing is converted that gains nothing, and costs ReLU and approx a third.
template <class V, class F, class T, class... P>
[[gnu::flatten, gnu::noinline]] void batches(F f, std::size_t n, T* dst, const P*... src)
{
    using S = Portion<V, in_pairs<V, T, P...>>;
    constexpr std::size_t size = portion<V, T, P...>;
    if constexpr (sizeof(T) != 2) {
        for (std::size_t i = 0; i < n; i += size) S::of(f, S::at(src + i)...).to(dst + i);
    }
    else {
        auto ahead = std::make_tuple(S::at(src)...);
        S behind{};
        T nowhere[size];
        T* last = nowhere;
        for (std::size_t i = 0; i < n; i += size) {
            const std::size_t next = i + size < n ? i + size : i;
            const auto in = ahead;
            ahead = std::make_tuple(S::at(src + next)...);
            const S result = std::apply([f](auto... each) { return S::of(f, each...); }, in);
            behind.to(last);
            behind = result;
            last = dst + i;
        }
        behind.to(last);
    }
}

// A portion that begins with n elements of an array.
template <std::size_t size, class T> struct Padded {
    T values[size] = {};
    Padded(const T* p, std::size_t n) { std::memcpy(values, p, n * sizeof(T)); }
};

// dst[i] = f(src[i]...)
template <class V, class F, class T, class... P> void map(F f, std::size_t n, T* dst, const P*... src)
{
    constexpr std::size_t size = portion<V, T, P...>;
    const std::size_t rest = n % size, whole = n - rest;
    if (whole) batches<V>(f, whole, dst, src...);
    if (rest) {
        T result[size];
        batches<V>(f, size, result, Padded<size, P>(src + whole, rest).values...);
        std::memcpy(dst + whole, result, rest * sizeof(T));
    }
}

// S is the type in memory, T the one that is computed in, which is also that of alphas and their gradients.
template <class S, class Isa> struct Loops {
    using T = compute_t<S>;
    using V = vec<T, Isa>;

    static const S* in(const void* p) { return static_cast<const S*>(p); }
    static S* out(void* p) { return static_cast<S*>(p); }
    static Alpha<V> alpha(double a) { return Alpha<V>(V(static_cast<T>(a))); }
    static bool is_plain(double a)
    {
        return static_cast<T>(a) > 0 && static_cast<T>(a) < std::numeric_limits<T>::infinity();
    }

    // One alpha as many, for loops that take one per lane.
    struct Repeated {
        T values[chunk];
        Repeated(double a, std::size_t n) { std::fill_n(values, std::min(chunk, n), static_cast<T>(a)); }
    };

    // What a map computes: f, or f'.
    template <Function F, Method M> struct Value {
        static constexpr Function function = F;
        template <Alphas A> static V at(V x, Alpha<V> a) { return forward<F, M, A>(x, a); }
    };
    template <Function F, Method M> struct Slope {
        static constexpr Function function = F;
        template <Alphas A> static V at(V x, Alpha<V> a)
        {
            V unused;
            return backward<F, M, A>(x, constant<V>(1), a, unused);
        }
    };

    template <class K> static void map_lanes(const void* src, void* dst, std::size_t n, const void* alphas)
    {
        map<V>([](V x, V a) { return K::template at<Alphas::lanes>(x, Alpha<V>(a)); }, n, out(dst), in(src),
               static_cast<const T*>(alphas));
    }
    template <class K, Alphas A> static void map_same(const void* src, void* dst, std::size_t n, Alpha<V> a)
    {
        map<V>([a](V x) { return K::template at<A>(x, a); }, n, out(dst), in(src));
    }
    template <class K> static void map_one(const void* src, void* dst, std::size_t n, double a)
    {
        if constexpr (!has_alpha(K::function)) map_same<K, Alphas::unit>(src, dst, n, alpha(1));
        else if (a == 1) map_same<K, Alphas::unit>(src, dst, n, alpha(1));
        else if (is_plain(a)) map_same<K, Alphas::one>(src, dst, n, alpha(a));
        else {
            const Repeated alphas(a, n);
            for (std::size_t i = 0; i < n; i += chunk)
                map_lanes<K>(in(src) + i, out(dst) + i, std::min(chunk, n - i), alphas.values);
        }
    }

    // What a backward pass computes from: the input, or the output. Both also tell f(x), for the gradient of alpha.
    template <Function F, Method M> struct FromInput {
        static constexpr Function function = F;
        template <Alphas A> static V at(V x, V grad, Alpha<V> a, V& f) { return backward<F, M, A>(x, grad, a, f); }
    };
    template <Function F> struct FromOutput {
        static constexpr Function function = F;
        template <Alphas A> static V at(V y, V grad, Alpha<V> a, V& f)
        {
            return f = y, backward_from_output<F, A>(y, grad, a);
        }
    };

    template <class K>
    static void backward_lanes(const void* saved, const void* grad_out, void* grad_in, std::size_t n,
                               const void* alphas, void* alpha_grads)
    {
        const T* each = static_cast<const T*>(alphas);
        if (alpha_grads) {  // first, because grad_in may be saved or grad_out
            const auto add = [](V s, V grad, V a, V sum) {
                V f;
                K::template at<Alphas::lanes>(s, grad, Alpha<V>(a), f);
                return sum + alpha_gradient<K::function>(f, grad);
            };
            T* sums = static_cast<T*>(alpha_grads);
            map<V>(add, n, sums, in(saved), in(grad_out), each, static_cast<const T*>(sums));
        }
        const auto gradient = [](V s, V grad, V a) {
            V unused;
            return K::template at<Alphas::lanes>(s, grad, Alpha<V>(a), unused);
        };
        map<V>(gradient, n, out(grad_in), in(saved), in(grad_out), each);
    }

    template <class K, Alphas A>
    static void backward_same(const void* saved, const void* grad_out, void* grad_in, std::size_t n, Alpha<V> a)
    {
        const auto gradient = [a](V s, V grad) {
            V unused;
            return K::template at<A>(s, grad, a, unused);
        };
        map<V>(gradient, n, out(grad_in), in(saved), in(grad_out));
    }
    template <class K>
    static void backward_one(const void* saved, const void* grad_out, void* grad_in, std::size_t n, double a,
                             double* alpha_grad)
    {
        if constexpr (!has_alpha(K::function)) backward_same<K, Alphas::unit>(saved, grad_out, grad_in, n, alpha(1));
        else if (!alpha_grad && a == 1) backward_same<K, Alphas::unit>(saved, grad_out, grad_in, n, alpha(1));
        else if (!alpha_grad && is_plain(a)) backward_same<K, Alphas::one>(saved, grad_out, grad_in, n, alpha(a));
        else {
            const Repeated alphas(a, n);
            for (std::size_t i = 0; i < n; i += chunk) {
                T sums[chunk] = {};
                const std::size_t count = std::min(chunk, n - i);
                backward_lanes<K>(in(saved) + i, in(grad_out) + i, out(grad_in) + i, count, alphas.values,
                                  alpha_grad ? sums : nullptr);
                if (alpha_grad) *alpha_grad += static_cast<double>(std::accumulate(sums, sums + count, 0.0));
            }
        }
    }

    template <Method M> static void rsqrt(const void* src, void* dst, std::size_t n, double)
    {
        map<V>([](V x) { return isrlu::rsqrt<M>(x); }, n, out(dst), in(src));
    }
};

}  // namespace
}  // namespace isrlu
