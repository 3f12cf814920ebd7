// A whole sequence in one call: the product of all inputs with W_ih; then, for each step, the product of the state with
// W_hh, and the gates. The rules for panels and rows are in product.hpp, the gates' formulas and errors in gates.hpp.
#pragma once

#include <algorithm>

#include "recurrent/gates.hpp"
#include "recurrent/product.hpp"

namespace isrlu {
namespace {

// Rows [begin, end) of the batch in one step. Rows [begin, first_initial) take their previous states from the previous
// step, rows [first_initial, end) take the initial states.
struct Step {
    std::size_t row, previous_row;  // of batch index 0, in this and in the previous step
    std::size_t begin, first_initial, end;
};

// Calls f(Step) for each step with rows in [begin, end) of the batch, in the layer's order, or for `backwards` in the
// opposite order.
template <class F> void each_step(const Sequence& sequence, std::size_t begin, std::size_t end, bool backwards, F f)
{
    const bool descending = sequence.reverse != backwards;
    const auto size = [&](std::size_t t) {
        return sequence.sizes ? static_cast<std::size_t>(sequence.sizes[t]) : sequence.batch;
    };
    std::size_t row = 0;
    if (descending)
        for (std::size_t t = 0; t < sequence.steps; ++t) row += size(t);
    for (std::size_t i = 0; i < sequence.steps; ++i) {
        const std::size_t t = descending ? sequence.steps - 1 - i : i, n = size(t);
        if (descending) row -= n;
        const bool first = sequence.reverse ? t + 1 == sequence.steps : t == 0;
        const std::size_t previous_row = first ? 0 : sequence.reverse ? row + n : row - size(t - 1);
        const std::size_t continued = first ? 0 : sequence.reverse ? size(t + 1) : n, step_end = std::min(end, n);
        if (begin < step_end) f(Step{row, previous_row, begin, std::clamp(continued, begin, step_end), step_end});
        if (!descending) row += n;
    }
}

template <Cell C, Gates K, class T, class Isa> struct LayerLoops {
    using Kernel = std::conditional_t<C == Cell::lstm, LstmCell<K, T, Isa>, GruCell<K, T, Isa>>;
    using P = Product<T, Isa>;
    static constexpr GateLayout layout = layout_of(C);

    // Calls f(begin, end, previous h, previous c) for the rows with previous states and for those with initial states.
    template <class F> static void each_row_range(const Step& s, const T* y, const T* cells, const Layer& layer, F f)
    {
        const T *h0 = static_cast<const T*>(layer.h0), *c0 = static_cast<const T*>(layer.c0);
        const std::size_t previous = (s.previous_row + s.begin) * layer.hidden,
                          initial = s.first_initial * layer.hidden;
        if (s.begin < s.first_initial) f(s.begin, s.first_initial, y + previous, cells ? cells + previous : nullptr);
        if (s.first_initial < s.end) f(s.first_initial, s.end, h0 + initial, c0 ? c0 + initial : nullptr);
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

    // The biases in the layout of a row of gates. b_ih and b_hh may be null.
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

    // gates = biases + W_ih x for the rows [begin, end).
    static void multiply_input(const LayerForward& layer, std::size_t begin, std::size_t end)
    {
        const std::size_t row_size = 4 * layer.hidden;
        const T* x = static_cast<const T*>(layer.x);
        T* gates = static_cast<T*>(layer.gates);
        for (std::size_t first = begin, last; first < end; first = last) {
            last = std::min(first + P::row_block, end);
            for (std::size_t row = first; row < last; ++row)
                std::memcpy(gates + row * row_size, layer.biases, row_size * sizeof(T));
            P::add(last - first, layer.width, layout.columns * layer.hidden, x + first * layer.width, layer.width,
                   static_cast<const T*>(layer.input_weights),
                   gates + first * row_size + layout.first_input * layer.hidden, row_size);
        }
    }

    // The next step's row comes from another thread's cache. An address outside of the array does no harm.
    static void prefetch(const T* row, std::size_t count)
    {
#if defined(__GNUC__)
        for (std::size_t i = 0; i < count; i += 64 / sizeof(T)) __builtin_prefetch(row + i, 1);
#endif
    }

    static void forward(const LayerForward& layer, std::size_t begin, std::size_t end, StepListener* listener)
    {
        const std::size_t hidden = layer.hidden;
        T *y = static_cast<T*>(layer.y), *cells = static_cast<T*>(layer.cells), *gates = static_cast<T*>(layer.gates);
        bool last_panel_first = false;  // alternates: see product.hpp
        each_step(layer, begin, end, false, [&](const Step& s) {
            if (listener) listener->before_step(s.row + s.begin, s.row + s.end);
            each_row_range(s, y, cells, layer, [&](std::size_t first, std::size_t last, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = last - first;
                T* g = gates + row * 4 * hidden;
                if (listener && rows == 1) prefetch(layer.reverse ? g - 4 * hidden : g + 4 * hidden, 4 * hidden);
                P::add(rows, hidden, layout.columns * hidden, h, hidden, static_cast<const T*>(layer.weights),
                       g + layout.first_state * hidden, 4 * hidden, last_panel_first);
                T* state = cells ? cells + (layer.keep ? row : first) * hidden : nullptr;
                Kernel::forward(rows, hidden, g, h, layer.keep ? c : state, y + row * hidden, state, layer.keep);
            });
            last_panel_first = !last_panel_first;
        });
    }

    static void backward(const LayerBackward& layer, std::size_t begin, std::size_t end)
    {
        const std::size_t hidden = layer.hidden;
        const T *y = static_cast<const T*>(layer.y), *cells = static_cast<const T*>(layer.cells);
        T *slopes = static_cast<T*>(layer.slopes), *dh = static_cast<T*>(layer.dh), *dc = static_cast<T*>(layer.dc);
        bool last_panel_first = false;
        each_step(layer, begin, end, true, [&](const Step& s) {
            each_row_range(s, y, cells, layer, [&](std::size_t first, std::size_t last, const T* h, const T* c) {
                const std::size_t row = s.row + first, rows = last - first;
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
