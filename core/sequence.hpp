// A whole sequence in one call: for each step the state's product with the weights, which were packed once, and the gates' kernel.
//
// The product c += a b computes 3 rows by 4 batches at a time: 12 sums, 3 numbers of a, 1 batch of b, which are AVX2's 16 registers. Weights
// are packed in panels of 4 batches, so that a panel is read once for all rows of a step. A single row takes two panels at a time, as 4 chains of
// dependent additions would wait for each other. Each sum runs over k in order, whatever the tile: a row's result does not depend on the rows around it.
#pragma once

#include <algorithm>

#include "gates.hpp"

namespace isrlu {
namespace {

template <class T, class Isa> struct Product {
    using V = vec<T, Isa>;
    static constexpr std::size_t lanes = traits<V>::lanes, wide = 4, panel = wide * lanes;

    static std::size_t panels(std::size_t columns) { return (columns + panel - 1) / panel; }
    static std::size_t size(std::size_t depth, std::size_t columns) { return panels(columns) * panel * depth; }

    static void pack(const void* weights, std::size_t rows, std::size_t hidden, std::size_t shift, bool transposed, void* packed)
    {
        const auto row = [&](std::size_t i) { return static_cast<const T*>(weights) + (i + shift) % rows * hidden; };
        const std::size_t depth = transposed ? rows : hidden, columns = transposed ? hidden : rows;
        T* to = static_cast<T*>(packed);
        std::fill_n(to + (panels(columns) - 1) * panel * depth, panel * depth, T(0));  // the last panel may have columns to spare
        for (std::size_t n = 0; n < columns; n += panel, to += panel * depth) {
            const std::size_t count = std::min(panel, columns - n);
            if (transposed)
                for (std::size_t k = 0; k < depth; ++k) std::memcpy(to + k * panel, row(k) + n, count * sizeof(T));
            else
                for (std::size_t j = 0; j < count; ++j) {
                    const T* from = row(n + j);
                    for (std::size_t k = 0; k < depth; ++k) to[k * panel + j] = from[k];
                }
        }
    }

    // c[R, P panels] += a[R, depth] b
    template <int R, int P> [[gnu::noinline]] static void tile(const T* a, std::size_t a_step, const T* b, std::size_t depth, T* c, std::size_t c_step)
    {
        V sums[R][P * wide];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * wide; ++j) sums[r][j] = read<V>(c + r * c_step + j * lanes);
        for (std::size_t k = 0; k < depth; ++k) {
            V x[R];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) x[r] = V(a[r * a_step + k]);
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * wide; ++j) {
                const V w = read<V>(b + j / wide * panel * depth + k * panel + j % wide * lanes);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) sums[r][j] = fma(x[r], w, sums[r][j]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * wide; ++j) write(c + r * c_step + j * lanes, sums[r][j]);
    }

    template <int R, int P = 1> static void at(const T* a, std::size_t a_step, const T* b, std::size_t depth, T* c, std::size_t c_step, std::size_t columns)
    {
        if (columns >= P * panel) return tile<R, P>(a, a_step, b, depth, c, c_step);
        T padded[R * P * panel] = {};
        for (int r = 0; r < R; ++r) std::memcpy(padded + r * P * panel, c + r * c_step, columns * sizeof(T));
        tile<R, P>(a, a_step, b, depth, padded, P * panel);
        for (int r = 0; r < R; ++r) std::memcpy(c + r * c_step, padded + r * P * panel, columns * sizeof(T));
    }

    // c[rows, columns] += a[rows, depth] b, b packed
    static void add(std::size_t rows, std::size_t depth, std::size_t columns, const T* a, std::size_t a_step, const T* b, T* c, std::size_t c_step)
    {
        if (rows == 1) {
            std::size_t n = 0;
            for (; n + panel < columns; n += 2 * panel) at<1, 2>(a, a_step, b + n * depth, depth, c + n, c_step, columns - n);
            if (n < columns) at<1>(a, a_step, b + n * depth, depth, c + n, c_step, columns - n);
            return;
        }
        for (std::size_t n = 0; n < columns; n += panel)
            for (std::size_t r = 0; r < rows;) {
                const std::size_t left = rows - r, count = left == 4 || left == 2 ? 2 : std::min<std::size_t>(left, 3);
                const T* x = a + r * a_step;
                T* y = c + r * c_step + n;
                if (count == 3) at<3>(x, a_step, b + n * depth, depth, y, c_step, columns - n);
                else if (count == 2) at<2>(x, a_step, b + n * depth, depth, y, c_step, columns - n);
                else at<1>(x, a_step, b + n * depth, depth, y, c_step, columns - n);
                r += count;
            }
    }
};

// A step's rows of the batch [from, to): where they lie, and where their previous state is: among the rows of the step before, for the first
// `continued` of them, else in the initial states.
struct Step {
    std::size_t row, before, from, continued, to;
};

// Calls f(Step) for each step that has rows of the batch in [from, to), in the layer's order, or in the opposite one.
template <class F> void each_step(const Layer& layer, std::size_t from, std::size_t to, bool backwards, F f)
{
    const bool down = layer.reverse != backwards;
    const auto size = [&](std::size_t t) { return layer.sizes ? static_cast<std::size_t>(layer.sizes[t]) : layer.batch; };
    std::size_t row = 0;
    if (down)
        for (std::size_t t = 0; t < layer.steps; ++t) row += size(t);
    for (std::size_t i = 0; i < layer.steps; ++i) {
        const std::size_t t = down ? layer.steps - 1 - i : i, n = size(t);
        if (down) row -= n;
        const bool first = layer.reverse ? t + 1 == layer.steps : t == 0;
        const std::size_t before = first ? 0 : layer.reverse ? row + n : row - size(t - 1);
        const std::size_t known = first ? 0 : layer.reverse ? size(t + 1) : n, end = std::min(to, n);
        if (from < end) f(Step{row, before, from, std::clamp(known, from, end), end});
        if (!down) row += n;
    }
}

template <Cell C, Gates K, class T, class Isa> struct SequenceOf {
    using Kernel = std::conditional_t<C == Cell::lstm, LstmCell<K, T, Isa>, GruCell<K, T, Isa>>;
    using P = Product<T, Isa>;
    static constexpr std::size_t columns = state_columns(C);

    // f(first row of the batch, row after the last, previous h, previous c): at most two stretches of a step
    template <class F> static void stretches(const Step& s, std::size_t hidden, const T* y, const T* cells, const Layer& layer, F f)
    {
        const T *h0 = static_cast<const T*>(layer.h0), *c0 = static_cast<const T*>(layer.c0);
        const std::size_t known = (s.before + s.from) * hidden, fresh = s.continued * hidden;
        if (s.from < s.continued) f(s.from, s.continued, y + known, cells ? cells + known : nullptr);
        if (s.continued < s.to) f(s.continued, s.to, h0 + fresh, c0 ? c0 + fresh : nullptr);
    }

    static void forward(const LayerForward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t hidden = layer.hidden;
        T *y = static_cast<T*>(layer.y), *cells = static_cast<T*>(layer.cells), *gates = static_cast<T*>(layer.gates);
        each_step(layer, from, to, false, [&](const Step& s) {
            stretches(s, hidden, y, cells, layer, [&](std::size_t first, std::size_t end, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = end - first;
                T* g = gates + row * 4 * hidden;
                P::add(rows, hidden, columns * hidden, h, hidden, static_cast<const T*>(layer.weights), g, 4 * hidden);
                T* state = cells ? cells + (layer.keep ? row : first) * hidden : nullptr;
                Kernel::forward(rows, hidden, g, h, layer.keep ? c : state, y + row * hidden, state, layer.keep);
            });
        });
    }

    static void backward(const LayerBackward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t hidden = layer.hidden;
        const T *y = static_cast<const T*>(layer.y), *cells = static_cast<const T*>(layer.cells);
        T *slopes = static_cast<T*>(layer.slopes), *dh = static_cast<T*>(layer.dh), *dc = static_cast<T*>(layer.dc);
        each_step(layer, from, to, true, [&](const Step& s) {
            stretches(s, hidden, y, cells, layer, [&](std::size_t first, std::size_t end, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = end - first;
                const T* g = static_cast<const T*>(layer.gates) + row * 4 * hidden;
                const T* grad_y = static_cast<const T*>(layer.grad_y) + row * hidden;
                T *slope = slopes + row * 4 * hidden, *d = dh + first * hidden;
                Kernel::backward(rows, hidden, g, h, c, cells ? cells + row * hidden : nullptr, grad_y, slope, d, dc ? dc + first * hidden : nullptr);
                P::add(rows, columns * hidden, hidden, slope, 4 * hidden, static_cast<const T*>(layer.weights), d, hidden);
            });
        });
    }

    static void gates(std::size_t rows, std::size_t hidden, void* gates, const void* h, const void* c, void* new_h, void* new_c, bool keep)
    {
        Kernel::forward(rows, hidden, static_cast<T*>(gates), static_cast<const T*>(h), static_cast<const T*>(c), static_cast<T*>(new_h),
                        static_cast<T*>(new_c), keep);
    }
    static constexpr Recurrence kernels() { return {forward, backward, gates}; }
};

template <class Isa> constexpr LayerKernels build_layers()
{
    return {{{{SequenceOf<Cell::lstm, Gates::isru, float, Isa>::kernels(), SequenceOf<Cell::lstm, Gates::isru, double, Isa>::kernels()},
              {SequenceOf<Cell::lstm, Gates::exact, float, Isa>::kernels(), SequenceOf<Cell::lstm, Gates::exact, double, Isa>::kernels()}},
             {{SequenceOf<Cell::gru, Gates::isru, float, Isa>::kernels(), SequenceOf<Cell::gru, Gates::isru, double, Isa>::kernels()},
              {SequenceOf<Cell::gru, Gates::exact, float, Isa>::kernels(), SequenceOf<Cell::gru, Gates::exact, double, Isa>::kernels()}}},
            {{Product<float, Isa>::size, Product<float, Isa>::pack}, {Product<double, Isa>::size, Product<double, Isa>::pack}}};
}

}  // namespace
}  // namespace isrlu
