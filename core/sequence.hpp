// A whole sequence in one call: the product of all inputs with their weights, then for each step the state's product and the gates' kernel.
#pragma once

#include <algorithm>

#include "gates.hpp"
#include "product.hpp"

namespace isrlu {
namespace {

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

    static void arguments(std::size_t rows, std::size_t hidden, const void* x, const void* s, void* gates)
    {
        const std::size_t wide = columns * hidden, both = C == Cell::lstm ? wide : 2 * hidden, skipped = 4 * hidden - wide;
        const T *from = static_cast<const T*>(x), *state = static_cast<const T*>(s);
        T* to = static_cast<T*>(gates);
        for (std::size_t row = 0; row < rows; ++row, from += wide, state += wide, to += 4 * hidden) {
            for (std::size_t i = 0; i < both; ++i) to[skipped + i] = from[i] + state[i];
            std::memcpy(to, state + both, skipped * sizeof(T));  // q
            std::memcpy(to + skipped + both, from + both, (wide - both) * sizeof(T));  // n
        }
    }

    // What a row of gates starts from: the biases, each of which may be missing.
    static void start(std::size_t hidden, const void* b_ih, const void* b_hh, void* row)
    {
        const auto bias = [](const void* b, std::size_t i) { return b ? static_cast<const T*>(b)[i] : T(0); };
        T* to = static_cast<T*>(row);
        for (std::size_t i = 0; i < 4 * hidden; ++i) {
            if constexpr (C == Cell::lstm) to[i] = bias(b_ih, i) + bias(b_hh, i);
            else if (i < hidden) to[i] = bias(b_hh, 2 * hidden + i);  // q has the state's bias of n, n the input's
            else to[i] = bias(b_ih, i - hidden) + (i < 3 * hidden ? bias(b_hh, i - hidden) : T(0));
        }
    }

    // The input's part of the gates' arguments for the rows [from, to).
    static void input(const LayerForward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t wide = 4 * layer.hidden, skipped = wide - columns * layer.hidden;
        const T* x = static_cast<const T*>(layer.x);
        T* gates = static_cast<T*>(layer.gates);
        for (std::size_t end; from < to; from = end) {
            end = std::min(from + P::many_rows, to);
            for (std::size_t row = from; row < end; ++row) std::memcpy(gates + row * wide, layer.start, wide * sizeof(T));
            P::add(end - from, layer.width, columns * layer.hidden, x + from * layer.width, layer.width, static_cast<const T*>(layer.input_weights),
                   gates + from * wide + skipped, wide);
        }
    }

    // The next step's row comes from another thread's cache: ask for it in time. An address outside of the array does no harm.
    static void fetch(const T* row, std::size_t count)
    {
#if defined(__GNUC__)
        for (std::size_t i = 0; i < count; i += 64 / sizeof(T)) __builtin_prefetch(row + i, 1);
#endif
    }

    static void forward(const LayerForward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t hidden = layer.hidden;
        T *y = static_cast<T*>(layer.y), *cells = static_cast<T*>(layer.cells), *gates = static_cast<T*>(layer.gates);
        bool turn = false;
        each_step(layer, from, to, false, [&](const Step& s) {
            if (layer.before_step) layer.before_step(layer.before_step_context, s.row + s.from, s.row + s.to);
            stretches(s, hidden, y, cells, layer, [&](std::size_t first, std::size_t end, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = end - first;
                T* g = gates + row * 4 * hidden;
                if (layer.before_step && rows == 1) fetch(layer.reverse ? g - 4 * hidden : g + 4 * hidden, 4 * hidden);
                P::add(rows, hidden, columns * hidden, h, hidden, static_cast<const T*>(layer.weights), g, 4 * hidden, turn);
                T* state = cells ? cells + (layer.keep ? row : first) * hidden : nullptr;
                Kernel::forward(rows, hidden, g, h, layer.keep ? c : state, y + row * hidden, state, layer.keep);
            });
            turn = !turn;
        });
    }

    static void backward(const LayerBackward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t hidden = layer.hidden;
        const T *y = static_cast<const T*>(layer.y), *cells = static_cast<const T*>(layer.cells);
        T *slopes = static_cast<T*>(layer.slopes), *dh = static_cast<T*>(layer.dh), *dc = static_cast<T*>(layer.dc);
        bool turn = false;
        each_step(layer, from, to, true, [&](const Step& s) {
            stretches(s, hidden, y, cells, layer, [&](std::size_t first, std::size_t end, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = end - first;
                const T* g = static_cast<const T*>(layer.gates) + row * 4 * hidden;
                const T* grad_y = static_cast<const T*>(layer.grad_y) + row * hidden;
                T *slope = slopes + row * 4 * hidden, *d = dh + first * hidden;
                Kernel::backward(rows, hidden, g, h, c, cells ? cells + row * hidden : nullptr, grad_y, slope, d, dc ? dc + first * hidden : nullptr);
                if (!layer.weights) return;
                P::add(rows, columns * hidden, hidden, slope, 4 * hidden, static_cast<const T*>(layer.weights), d, hidden, turn);
            });
            turn = !turn;
        });
    }

    static void gates(std::size_t rows, std::size_t hidden, void* gates, const void* h, const void* c, void* new_h, void* new_c, bool keep)
    {
        Kernel::forward(rows, hidden, static_cast<T*>(gates), static_cast<const T*>(h), static_cast<const T*>(c), static_cast<T*>(new_h),
                        static_cast<T*>(new_c), keep);
    }
    static constexpr Recurrence kernels() { return {start, input, forward, backward, arguments, gates}; }
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
