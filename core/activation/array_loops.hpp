// Array loops around the formula, for every type.
//
// The last elements of an array run through the same batch code as the others, in a padded buffer. A result therefore
// depends on its input alone, not on its position or on the array's length.
#pragma once

#include <algorithm>
#include <numeric>
#include <tuple>

#include "activation/formula.hpp"
#include "activation/rsqrt.hpp"
#include "simd/half.hpp"

namespace isrlu {
namespace {

// One loop iteration processes one batch, or an even and an odd batch if all arrays are bfloat16 (see read_even).
template <class V, class... P> constexpr bool in_pairs = !is_scalar<V> && (std::is_same_v<P, bfloat16> && ...);
template <class V, class... P>
constexpr std::size_t elements_per_iteration = traits<V>::lanes * (in_pairs<V, P...> ? 2 : 1);

template <class V, bool pair> struct BatchOrPair {
    V batch;
    template <class T> static BatchOrPair load(const T* p) { return {read<V>(p)}; }
    template <class T> void store(T* p) const { write(p, batch); }
    template <class F, class... S> static BatchOrPair apply(F f, S... in) { return {f(in.batch...)}; }
};
template <class V> struct BatchOrPair<V, true> {
    V even, odd;
    static BatchOrPair load(const bfloat16* p) { return {read_even<V>(p), read_odd<V>(p)}; }
    void store(bfloat16* p) const { write_both(p, even, odd); }
    template <class F, class... S> static BatchOrPair apply(F f, S... in) { return {f(in.even...), f(in.odd...)}; }
};

// dst[i] = f(src[i]...). Precondition: n > 0 is a multiple of elements_per_iteration.
//
// flatten inlines the formula: a call per batch would cost more than the formula itself. noinline keeps one copy of the
// loop for body and tail: two copies would double the size of the library.
//
// 16-bit types are software-pipelined: loaded one iteration ahead, stored one iteration later, so that the conversions
// do not wait for the formula. float16: without 0.228 ns, with 0.207 ns per element, Zen 3. 32-bit and 64-bit types are
// not converted and not pipelined: it makes ReLU and method approx slower by a third.
template <class V, class F, class T, class... P>
[[gnu::flatten, gnu::noinline]] void map_batches(F f, std::size_t n, T* dst, const P*... src)
{
    using B = BatchOrPair<V, in_pairs<V, T, P...>>;
    constexpr std::size_t step = elements_per_iteration<V, T, P...>;
    if constexpr (sizeof(T) != 2) {
        for (std::size_t i = 0; i < n; i += step) B::apply(f, B::load(src + i)...).store(dst + i);
    }
    else {
        auto next_inputs = std::make_tuple(B::load(src)...);
        B pending{};
        T discarded[step];  // the first iteration has nothing to store yet
        T* pending_dst = discarded;
        for (std::size_t i = 0; i < n; i += step) {
            const std::size_t next = i + step < n ? i + step : i;
            const auto inputs = next_inputs;
            next_inputs = std::make_tuple(B::load(src + next)...);
            const B result = std::apply([f](auto... in) { return B::apply(f, in...); }, inputs);
            pending.store(pending_dst);
            pending = result;
            pending_dst = dst + i;
        }
        pending.store(pending_dst);
    }
}

// The first n values of an array, padded with zeros.
template <std::size_t size, class T> struct Padded {
    T values[size] = {};
    Padded(const T* p, std::size_t n) { std::memcpy(values, p, n * sizeof(T)); }
};

// dst[i] = f(src[i]...) for any n
template <class V, class F, class T, class... P> void map(F f, std::size_t n, T* dst, const P*... src)
{
    constexpr std::size_t step = elements_per_iteration<V, T, P...>;
    const std::size_t rest = n % step, whole = n - rest;
    if (whole) map_batches<V>(f, whole, dst, src...);
    if (rest) {
        T result[step];
        map_batches<V>(f, step, result, Padded<step, P>(src + whole, rest).values...);
        std::memcpy(dst + whole, result, rest * sizeof(T));
    }
}

// The kernels of one type and instruction set. S: type in memory. T: type of the arithmetic, of alphas per element and
// of their gradients.
template <class S, class Isa> struct Loops {
    using T = compute_t<S>;
    using V = vec<T, Isa>;

    static const S* in(const void* p) { return static_cast<const S*>(p); }
    static S* out(void* p) { return static_cast<S*>(p); }
    template <class K> using Constants = typename Formula<K::function>::template Constants<V>;
    static bool is_positive_finite(double a)
    {
        return static_cast<T>(a) > 0 && static_cast<T>(a) < std::numeric_limits<T>::infinity();
    }

    // A uniform alpha that is 0, infinite or NaN, and every gradient of a uniform alpha, take the per-element kernels
    // in blocks of this many elements, with the alpha repeated. A block's alpha gradients are summed in float64.
    static constexpr std::size_t block_elements = 1024;
    struct RepeatedAlpha {
        T values[block_elements];
        RepeatedAlpha(double a, std::size_t n) { std::fill_n(values, std::min(block_elements, n), static_cast<T>(a)); }
    };

    // run(mode) for a function without an alpha per element. `mode` is an integral constant.
    template <AlphaMode A> using Mode = std::integral_constant<AlphaMode, A>;
    template <Function F, class Run> static void in_mode_of(Parameters p, Run run)
    {
        if constexpr (!alpha_is_number<F>) run(Mode<AlphaMode::unit>());
        else {
            const AlphaMode mode = Formula<F>::mode(static_cast<T>(p.alpha));
            if (mode == AlphaMode::unit) run(Mode<AlphaMode::unit>());
            else if (mode == AlphaMode::uniform) run(Mode<AlphaMode::uniform>());
            else run(Mode<AlphaMode::zero>());
        }
    }

    // What map_uniform and map_per_element compute: f or f'.
    template <Function F, Method M> struct Value {
        static constexpr Function function = F;
        template <AlphaMode A> static V at(V x, Constants<Value> c) { return Formula<F>::template forward<M, A>(x, c); }
    };
    template <Function F, Method M> struct Slope {
        static constexpr Function function = F;
        template <AlphaMode A> static V at(V x, Constants<Slope> c)
        {
            V unused;
            return Formula<F>::template backward<M, A>(x, constant<V>(1), c, unused);
        }
    };

    template <class K> static void map_per_element(const void* src, void* dst, std::size_t n, const void* alphas)
    {
        map<V>([](V x, V a) { return K::template at<AlphaMode::per_element>(x, Constants<K>(a)); }, n, out(dst),
               in(src), static_cast<const T*>(alphas));
    }
    template <class K, AlphaMode A> static void map_in_mode(const void* src, void* dst, std::size_t n, Constants<K> c)
    {
        map<V>([c](V x) { return K::template at<A>(x, c); }, n, out(dst), in(src));
    }
    template <class K> static void map_uniform(const void* src, void* dst, std::size_t n, Parameters p)
    {
        if constexpr (!Formula<K::function>::has_alpha)
            in_mode_of<K::function>(p, [&](auto mode) { map_in_mode<K, mode>(src, dst, n, Constants<K>(p)); });
        else if (p.alpha == 1) map_in_mode<K, AlphaMode::unit>(src, dst, n, Constants<K>(p));
        else if (is_positive_finite(p.alpha)) map_in_mode<K, AlphaMode::uniform>(src, dst, n, Constants<K>(p));
        else {
            const RepeatedAlpha alphas(p.alpha, n);
            for (std::size_t i = 0; i < n; i += block_elements)
                map_per_element<K>(in(src) + i, out(dst) + i, std::min(block_elements, n - i), alphas.values);
        }
    }

    // A backward pass from the input or from the output. Both return f(x) in `f`, for the gradient of alpha.
    template <Function F, Method M> struct FromInput {
        static constexpr Function function = F;
        template <AlphaMode A> static V at(V x, V grad, Constants<FromInput> c, V& f)
        {
            return Formula<F>::template backward<M, A>(x, grad, c, f);
        }
    };
    template <Function F> struct FromOutput {
        static constexpr Function function = F;
        template <AlphaMode A> static V at(V y, V grad, Constants<FromOutput> c, V& f)
        {
            return f = y, Formula<F>::template backward_from_output<A>(y, grad, c);
        }
    };

    template <class K>
    static void backward_per_element(const void* saved, const void* grad_out, void* grad_in, std::size_t n,
                                     const void* alphas, void* alpha_grads)
    {
        const T* a = static_cast<const T*>(alphas);
        if (alpha_grads) {  // before grad_in is written: it may be the same array as saved or grad_out
            const auto add = [](V s, V grad, V a, V sum) {
                V f;
                K::template at<AlphaMode::per_element>(s, grad, Constants<K>(a), f);
                return sum + Formula<K::function>::alpha_gradient(f, grad);
            };
            T* sums = static_cast<T*>(alpha_grads);
            map<V>(add, n, sums, in(saved), in(grad_out), a, static_cast<const T*>(sums));
        }
        const auto gradient = [](V s, V grad, V a) {
            V unused;
            return K::template at<AlphaMode::per_element>(s, grad, Constants<K>(a), unused);
        };
        map<V>(gradient, n, out(grad_in), in(saved), in(grad_out), a);
    }

    template <class K, AlphaMode A>
    static void backward_in_mode(const void* saved, const void* grad_out, void* grad_in, std::size_t n, Constants<K> c)
    {
        const auto gradient = [c](V s, V grad) {
            V unused;
            return K::template at<A>(s, grad, c, unused);
        };
        map<V>(gradient, n, out(grad_in), in(saved), in(grad_out));
    }
    template <class K>
    static void backward_uniform(const void* saved, const void* grad_out, void* grad_in, std::size_t n, Parameters p,
                                 double* alpha_grad)
    {
        if constexpr (!Formula<K::function>::has_alpha)
            in_mode_of<K::function>(
                p, [&](auto mode) { backward_in_mode<K, mode>(saved, grad_out, grad_in, n, Constants<K>(p)); });
        else if (!alpha_grad && p.alpha == 1)
            backward_in_mode<K, AlphaMode::unit>(saved, grad_out, grad_in, n, Constants<K>(p));
        else if (!alpha_grad && is_positive_finite(p.alpha))
            backward_in_mode<K, AlphaMode::uniform>(saved, grad_out, grad_in, n, Constants<K>(p));
        else {
            const RepeatedAlpha alphas(p.alpha, n);
            for (std::size_t i = 0; i < n; i += block_elements) {
                T alpha_grads[block_elements] = {};
                const std::size_t count = std::min(block_elements, n - i);
                backward_per_element<K>(in(saved) + i, in(grad_out) + i, out(grad_in) + i, count, alphas.values,
                                        alpha_grad ? alpha_grads : nullptr);
                if (alpha_grad) *alpha_grad += std::accumulate(alpha_grads, alpha_grads + count, 0.0);
            }
        }
    }

    template <Method M> static void rsqrt(const void* src, void* dst, std::size_t n, Parameters)
    {
        map<V>([](V x) { return isrlu::rsqrt<M>(x); }, n, out(dst), in(src));
    }
};

}  // namespace
}  // namespace isrlu
