// Loops of DyISRU over rows, for every type. The last elements of a row run through the same batch code as the others,
// as in activation/array_loops.hpp.
#pragma once

#include "activation/array_loops.hpp"
#include "norm/norm_formula.hpp"
#include "norm/norm_table.hpp"

namespace isrlu {
namespace {

// S: type in memory. T: type of the arithmetic.
template <class S, class Isa> struct NormLoops {
    using T = compute_t<S>;
    using V = vec<T, Isa>;
    static constexpr std::size_t lanes = traits<V>::lanes;
    static_assert(padded(1) % lanes == 0);

    static bool is_ordinary(double alpha, double shift) { return Line<V, true>::is_ordinary(alpha, shift); }

    static void forward(const NormForward& a)
    {
        is_ordinary(a.alpha, a.shift) ? forward_rows<true>(a) : forward_rows<false>(a);
    }
    template <bool ordinary> static void forward_rows(const NormForward& a)
    {
        const auto* weight = static_cast<const T*>(a.weight);
        if constexpr (value_scale<V> == 1) return forward_columns<ordinary>(a, 0, a.n, weight);
        constexpr std::size_t tile = 1024;  // columns whose scaled weights are on the stack
        T scaled[tile];
        for (std::size_t begin = 0; begin < a.n; begin += tile) {
            const std::size_t count = std::min(tile, a.n - begin);
            map<V>([](V w) { return w * constant<V>(1 / value_scale<V>); }, count, scaled, weight + begin);
            forward_columns<ordinary>(a, begin, count, scaled);
        }
    }
    template <bool ordinary>
    static void forward_columns(const NormForward& a, std::size_t begin, std::size_t count, const T* scaled_weight)
    {
        const Line<V, ordinary> line(a.alpha, a.shift);
        const auto* src = static_cast<const S*>(a.src) + begin;
        auto* dst = static_cast<S*>(a.dst) + begin;
        const auto* bias = static_cast<const T*>(a.bias) + begin;
        for (std::size_t row = 0; row < a.rows; ++row)
            map<V>([line](V x, V w, V b) { return norm_forward(line, x, w, b); }, count, dst + row * a.n,
                   src + row * a.n, scaled_weight, bias);
    }

    // Rows that the backward pass takes at a time. It loads and stores the sums over rows once for all of them.
    static constexpr std::size_t group = 4;

    struct Sums {
        V alpha = constant<V>(0), shift = constant<V>(0);
    };

    // The rows of a group are too short for the CPU's own prefetcher, which follows one row at a time. On Zen 3, 2048 x
    // 768 float32: 0.80 ms with this and 1.0 ms without. An address outside of the array does no harm.
    static void prefetch_next_group([[maybe_unused]] const S* src, [[maybe_unused]] const S* grad_out,
                                    [[maybe_unused]] const S* grad_in, [[maybe_unused]] std::size_t distance)
    {
#if defined(__GNUC__)
        __builtin_prefetch(src + distance, 0, 2);
        __builtin_prefetch(grad_out + distance, 0, 2);
        __builtin_prefetch(grad_in + distance, 1, 2);
#endif
    }

    // `rows` rows of `count` elements, a multiple of lanes, which are `stride` elements apart.
    template <std::size_t rows, bool ordinary>
    [[gnu::flatten, gnu::noinline]] static void backward_rows(Line<V, ordinary> line, std::size_t count,
                                                              std::size_t stride, const S* src, const S* grad_out,
                                                              S* grad_in, const T* weight, T* weight_sum, T* bias_sum,
                                                              Sums& sums)
    {
        Sums all;
        for (std::size_t i = 0; i < count; i += lanes) {
            const V w = read<V>(weight + i), slope = w * line.alpha;
            Sums column;
            V of_weight = constant<V>(0), of_bias = constant<V>(0);
            for (std::size_t row = 0; row < rows; ++row) {
                const std::size_t at = row * stride + i;
                prefetch_next_group(src + at, grad_out + at, grad_in + at, rows * stride);
                const V x = line.clamped(read<V>(src + at)), grad = read<V>(grad_out + at);
                const ValueAndRoot<V> y = value_and_root(line.argument(x));
                const V grad_u = grad * (y.r * y.r * y.r);  // without the weight
                write(grad_in + at, grad_u * slope);
                of_weight = fma(grad, y.f, of_weight);
                of_bias = of_bias + grad;
                column.alpha = fma(grad_u, x, column.alpha);
                column.shift = column.shift + grad_u;
            }
            write(weight_sum + i, read<V>(weight_sum + i) + of_weight);
            write(bias_sum + i, read<V>(bias_sum + i) + of_bias);
            all.alpha = fma(w, column.alpha, all.alpha);
            all.shift = fma(w, column.shift, all.shift);
        }
        sums.alpha = sums.alpha + all.alpha;
        sums.shift = sums.shift + all.shift;
    }

    template <std::size_t rows, bool ordinary>
    static void backward_group(const NormBackward& a, std::size_t row, Sums& sums)
    {
        const Line<V, ordinary> line(a.alpha, a.shift);
        const std::size_t rest = a.n % lanes, whole = a.n - rest;
        const auto* src = static_cast<const S*>(a.src) + row * a.n;
        const auto* grad_out = static_cast<const S*>(a.grad_out) + row * a.n;
        auto* grad_in = static_cast<S*>(a.grad_in) + row * a.n;
        const auto* weight = static_cast<const T*>(a.weight);
        auto *weight_sum = static_cast<T*>(a.weight_sum), *bias_sum = static_cast<T*>(a.bias_sum);
        backward_rows<rows>(line, whole, a.n, src, grad_out, grad_in, weight, weight_sum, bias_sum, sums);
        if (!rest) return;
        S last_src[rows * lanes] = {}, last_grad[rows * lanes] = {}, result[rows * lanes];
        for (std::size_t r = 0; r < rows; ++r) {
            std::memcpy(last_src + r * lanes, src + r * a.n + whole, rest * sizeof(S));
            std::memcpy(last_grad + r * lanes, grad_out + r * a.n + whole, rest * sizeof(S));
        }
        backward_rows<rows>(line, lanes, lanes, last_src, last_grad, result,
                            Padded<lanes, T>(weight + whole, rest).values, weight_sum + whole, bias_sum + whole, sums);
        for (std::size_t r = 0; r < rows; ++r)
            std::memcpy(grad_in + r * a.n + whole, result + r * lanes, rest * sizeof(S));
    }

    static double total(V v)
    {
        T values[lanes];
        write(values, v);
        double sum = 0;
        for (const T each : values) sum += static_cast<double>(each);
        return sum;
    }

    static void backward(const NormBackward& a)
    {
        is_ordinary(a.alpha, a.shift) ? backward_all<true>(a) : backward_all<false>(a);
    }
    template <bool ordinary> static void backward_all(const NormBackward& a)
    {
        Sums sums;
        std::size_t row = 0;
        for (; row + group <= a.rows; row += group) backward_group<group, ordinary>(a, row, sums);
        for (; row < a.rows; ++row) backward_group<1, ordinary>(a, row, sums);
        *a.alpha_sum += total(sums.alpha);
        *a.shift_sum += total(sums.shift);
    }

    static void widen(const void* src, void* dst, std::size_t n)
    {
        map<V>([](V x) { return x; }, n, static_cast<T*>(dst), static_cast<const S*>(src));
    }

    static void narrow(const double* src, void* dst, std::size_t n)
    {
        T values[padded(1)];
        for (std::size_t i = 0; i < n; i += padded(1)) {
            const std::size_t count = std::min(padded(1), n - i);
            for (std::size_t j = 0; j < count; ++j) values[j] = static_cast<T>(src[i + j]);
            map<V>([](V x) { return x; }, count, static_cast<S*>(dst) + i, values);
        }
    }

    // In chunks of a fixed size, which the compiler vectorises.
    static void add(const void* src, double* sums, std::size_t n)
    {
        const auto* values = static_cast<const T*>(src);
        std::size_t i = 0;
        for (; i + padded(1) <= n; i += padded(1))
            for (std::size_t j = 0; j < padded(1); ++j) sums[i + j] += static_cast<double>(values[i + j]);
        for (; i < n; ++i) sums[i] += static_cast<double>(values[i]);
    }

    static constexpr Norm kernels = {forward, backward, widen, narrow, add};
};

template <class Isa> constexpr NormKernels norm_kernels_of()
{
    return {{NormLoops<float, Isa>::kernels, NormLoops<double, Isa>::kernels, NormLoops<float16, Isa>::kernels,
             NormLoops<bfloat16, Isa>::kernels}};
}

}  // namespace
}  // namespace isrlu
