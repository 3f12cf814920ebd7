// A whole sequence in one call: the product of all inputs with their weights, then for each step the state's product and the gates.
#pragma once

#include <algorithm>

#include "recurrent/gates.hpp"
#include "recurrent/product.hpp"

namespace isrlu {
namespace {

// A step's rows of the batch [from, to). The previous states of the first ones, up to `continued`, are among the rows of the step before, which
// begin at `before`. Those of the rest are the initial states.
struct Step {
    std::size_t row, before, from, continued, to;
};

// Calls f(Step) for each step that has rows of the batch in [from, to), in the layer's order, or in the opposite one.
template <class F> void each_step(const Sequence& sequence, std::size_t from, std::size_t to, bool backwards, F f)
{
    const bool down = sequence.reverse != backwards;
    const auto size = [&](std::size_t t) {
        return sequence.sizes ? static_cast<std::size_t>(sequence.sizes[t]) : sequence.batch;
    };
    std::size_t row = 0;
    if (down)
        for (std::size_t t = 0; t < sequence.steps; ++t) row += size(t);
    for (std::size_t i = 0; i < sequence.steps; ++i) {
        const std::size_t t = down ? sequence.steps - 1 - i : i, n = size(t);
        if (down) row -= n;
        const bool first = sequence.reverse ? t + 1 == sequence.steps : t == 0;
        const std::size_t before = first ? 0 : sequence.reverse ? row + n : row - size(t - 1);
        const std::size_t known = first ? 0 : sequence.reverse ? size(t + 1) : n, end = std::min(to, n);
        if (from < end) f(Step{row, before, from, std::clamp(known, from, end), end});
        if (!down) row += n;
    }
}

template <Cell C, Gates K, class T, class Isa> struct LayerLoops {
    using Kernel = std::conditional_t<C == Cell::lstm, LstmCell<K, T, Isa>, GruCell<K, T, Isa>>;
    using P = Product<T, Isa>;
    static constexpr GateLayout layout = layout_of(C);

    // Calls f(first row of the batch, row after the last, previous h, previous c) for the rows that continue a sequence and for those that begin
    // one.
    template <class F> static void each_block(const Step& s, const T* y, const T* cells, const Layer& layer, F f)
    {
        const T *h0 = static_cast<const T*>(layer.h0), *c0 = static_cast<const T*>(layer.c0);
        const std::size_t known = (s.before + s.from) * layer.hidden, fresh = s.continued * layer.hidden;
        if (s.from < s.continued) f(s.from, s.continued, y + known, cells ? cells + known : nullptr);
        if (s.continued < s.to) f(s.continued, s.to, h0 + fresh, c0 ? c0 + fresh : nullptr);
    }

    static void join_products(std::size_t rows, std::size_t hidden, const void* input, const void* state, void* gates)
    {
        const T *x = static_cast<const T*>(input), *s = static_cast<const T*>(state);
        T* to = static_cast<T*>(gates);
        const std::size_t width = layout.columns * hidden;
        for (std::size_t row = 0; row < rows; ++row, x += width, s += width, to += 4 * hidden) {
            if constexpr (C == Cell::lstm)
                for (std::size_t i = 0; i < width; ++i) to[i] = x[i] + s[i];
            else {
                for (std::size_t i = 0; i < 2 * hidden; ++i) to[gru::r * hidden + i] = x[i] + s[i];
                std::memcpy(to + gru::q * hidden, s + 2 * hidden, hidden * sizeof(T));
                std::memcpy(to + gru::n * hidden, x + 2 * hidden, hidden * sizeof(T));
            }
        }
    }

    // Each of the biases may be missing.
    static void add_biases(std::size_t hidden, const void* b_ih, const void* b_hh, void* row)
    {
        const auto bias = [](const void* b, std::size_t i) { return b ? static_cast<const T*>(b)[i] : T(0); };
        T* to = static_cast<T*>(row);
        if constexpr (C == Cell::lstm)
            for (std::size_t i = 0; i < 4 * hidden; ++i) to[i] = bias(b_ih, i) + bias(b_hh, i);
        else {
            for (std::size_t i = 0; i < 2 * hidden; ++i) to[gru::r * hidden + i] = bias(b_ih, i) + bias(b_hh, i);
            for (std::size_t i = 0; i < hidden; ++i) {
                to[gru::q * hidden + i] = bias(b_hh, 2 * hidden + i);
                to[gru::n * hidden + i] = bias(b_ih, 2 * hidden + i);
            }
        }
    }

    // The input's part of the gates' arguments for the rows [from, to).
    static void multiply_input(const LayerForward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t row_size = 4 * layer.hidden;
        const T* x = static_cast<const T*>(layer.x);
        T* gates = static_cast<T*>(layer.gates);
        for (std::size_t end; from < to; from = end) {
            end = std::min(from + P::row_block, to);
            for (std::size_t row = from; row < end; ++row)
                std::memcpy(gates + row * row_size, layer.biases, row_size * sizeof(T));
            P::add(end - from, layer.width, layout.columns * layer.hidden, x + from * layer.width, layer.width,
                   static_cast<const T*>(layer.input_weights),
                   gates + from * row_size + layout.first_input * layer.hidden, row_size);
        }
    }

    static void forward(const LayerForward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t hidden = layer.hidden;
        T *y = static_cast<T*>(layer.y), *cells = static_cast<T*>(layer.cells), *gates = static_cast<T*>(layer.gates);
        bool last_panel_first = false;  // in turns: the panels that were read last are still in the cache
        each_step(layer, from, to, false, [&](const Step& s) {
            each_block(s, y, cells, layer, [&](std::size_t first, std::size_t end, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = end - first;
                T* g = gates + row * 4 * hidden;
                P::add(rows, hidden, layout.columns * hidden, h, hidden, static_cast<const T*>(layer.weights),
                       g + layout.first_state * hidden, 4 * hidden, last_panel_first);
                T* state = cells ? cells + (layer.keep ? row : first) * hidden : nullptr;
                Kernel::forward(rows, hidden, g, h, layer.keep ? c : state, y + row * hidden, state, layer.keep);
            });
            last_panel_first = !last_panel_first;
        });
    }

    static void backward(const LayerBackward& layer, std::size_t from, std::size_t to)
    {
        const std::size_t hidden = layer.hidden;
        const T *y = static_cast<const T*>(layer.y), *cells = static_cast<const T*>(layer.cells);
        T *slopes = static_cast<T*>(layer.slopes), *dh = static_cast<T*>(layer.dh), *dc = static_cast<T*>(layer.dc);
        bool last_panel_first = false;
        each_step(layer, from, to, true, [&](const Step& s) {
            each_block(s, y, cells, layer, [&](std::size_t first, std::size_t end, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = end - first;
                const T* g = static_cast<const T*>(layer.gates) + row * 4 * hidden;
                const T* grad_y = static_cast<const T*>(layer.grad_y) + row * hidden;
                T *slope = slopes + row * 4 * hidden, *d = dh + first * hidden;
                Kernel::backward(rows, hidden, g, h, c, cells ? cells + row * hidden : nullptr, grad_y, slope, d,
                                 dc ? dc + first * hidden : nullptr);
                if (!layer.weights) return;
                P::add(rows, layout.columns * hidden, hidden, slope + layout.first_state * hidden, 4 * hidden,
                       static_cast<const T*>(layer.weights), d, hidden, last_panel_first);
            });
            last_panel_first = !last_panel_first;
        });
    }

    static void gates(std::size_t rows, std::size_t hidden, void* gates, const void* h, const void* c, void* new_h,
                      void* new_c, bool keep)
    {
        Kernel::forward(rows, hidden, static_cast<T*>(gates), static_cast<const T*>(h), static_cast<const T*>(c),
                        static_cast<T*>(new_h), static_cast<T*>(new_c), keep);
    }
    static constexpr Recurrence table()
    {
        return {add_biases, multiply_input, forward, backward, join_products, gates};
    }
};

template <class Isa> constexpr RecurrentKernels recurrent_kernels()
{
    return {{{{LayerLoops<Cell::lstm, Gates::isru, float, Isa>::table(),
               LayerLoops<Cell::lstm, Gates::isru, double, Isa>::table()},
              {LayerLoops<Cell::lstm, Gates::exact, float, Isa>::table(),
               LayerLoops<Cell::lstm, Gates::exact, double, Isa>::table()}},
             {{LayerLoops<Cell::gru, Gates::isru, float, Isa>::table(),
               LayerLoops<Cell::gru, Gates::isru, double, Isa>::table()},
              {LayerLoops<Cell::gru, Gates::exact, float, Isa>::table(),
               LayerLoops<Cell::gru, Gates::exact, double, Isa>::table()}}},
            {{Product<float, Isa>::size, Product<float, Isa>::pack},
             {Product<double, Isa>::size, Product<double, Isa>::pack}}};
}

}  // namespace
}  // namespace isrlu
