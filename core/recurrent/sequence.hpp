// A whole sequence in one call: the product of all inputs with W_ih; then, for each step, the product of the state with
// W_hh, and the gates. The rules for panels and rows are in product.hpp, the gates' formulas and errors in gates.hpp.
#pragma once

#include <algorithm>
#include <array>

#include "recurrent/gates.hpp"
#include "recurrent/gradient_products.hpp"
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
    static constexpr std::size_t max_block_rows = 192;  // of the batch: their gates and states stay in the L2 cache

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

    // The part's units of `blocks` columns of c.
    static void multiply(const typename P::Factors& f, std::size_t blocks, const Part& part, std::size_t hidden,
                         const typename P::Rows* ranges, std::size_t count, bool last_panel_first = false)
    {
        if (part.last_unit - part.first_unit == hidden)
            return P::add(f, ranges, count, 0, P::panels(f.columns), last_panel_first);
        for (std::size_t i = 0; i < blocks; ++i) {
            const std::size_t block = (last_panel_first ? blocks - 1 - i : i) * hidden;
            P::add(f, ranges, count, (block + part.first_unit) / P::panel, (block + part.last_unit) / P::panel,
                   last_panel_first);
        }
    }

    // gates = biases + W_ih x for ranges of rows of x and of gates.
    static void multiply_input(const LayerForward& layer, const Part& part, typename P::Rows* ranges, std::size_t count)
    {
        const std::size_t hidden = layer.hidden, first = layout.first_input * hidden;
        const std::size_t units = part.last_unit - part.first_unit;
        const T* biases = static_cast<const T*>(layer.biases);
        for (std::size_t i = 0; i < count; ++i) {
            if constexpr (layout.first_input == 1)  // a column to which the input adds nothing
                for (std::size_t row = 0; row < ranges[i].count; ++row)
                    std::memcpy(ranges[i].c + row * 4 * hidden + part.first_unit, biases + part.first_unit,
                                units * sizeof(T));
            ranges[i].c += first;
        }
        multiply({layer.width, layout.columns * hidden, static_cast<const T*>(layer.input_weights), layer.width,
                  4 * hidden, biases + first},
                 layout.columns, part, hidden, ranges, count);
    }
    static void multiply_input(const LayerForward& layer, std::size_t begin, std::size_t end)
    {
        typename P::Rows rows{end - begin, static_cast<const T*>(layer.x) + begin * layer.width,
                              static_cast<T*>(layer.gates) + begin * 4 * layer.hidden};
        multiply_input(layer, {0, layer.batch, 0, layer.hidden}, &rows, 1);
    }

    // The next step's row comes from another thread's cache. An address outside of the array does no harm.
    static void prefetch(const T* row, std::size_t count)
    {
#if defined(__GNUC__)
        for (std::size_t i = 0; i < count; i += 64 / sizeof(T)) __builtin_prefetch(row + i, 1);
#endif
    }

    static void forward(const LayerForward& layer, const Part& part, StepListener* listener)
    {
        for (std::size_t begin = part.begin, end; begin < part.end; begin = end) {
            end = std::min(begin + max_block_rows, part.end);
            forward_block(layer, {begin, end, part.first_unit, part.last_unit}, listener);
        }
    }

    // Chunk by chunk: the inputs of a few steps, then these steps. The gates' arguments stay in the cache meanwhile.
    static void forward_block(const LayerForward& layer, const Part& part, StepListener* listener)
    {
        const std::size_t row_size = 4 * layer.hidden;
        const bool has_inputs = listener && listener->multiplies_inputs;
        T* const gates = static_cast<T*>(layer.gates);
        std::array<Step, max_chunk_steps> steps;
        std::array<T*, max_chunk_steps> gates_of;  // of row step.begin
        std::size_t count = 0;
        bool last_panel_first = false;  // alternates: see product.hpp
        const auto run_chunk = [&] {
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t slot = layer.reverse ? count - 1 - i : i;  // in the order of x
                const std::size_t row = layer.keep || has_inputs
                                            ? steps[i].row + part.begin
                                            : layer.chunk_steps * part.begin + slot * (part.end - part.begin);
                gates_of[i] = gates + row * row_size;
            }
            if (!has_inputs) multiply_inputs_of(layer, part, count, steps.data(), gates_of.data());
            for (std::size_t i = 0; i < count; ++i, last_panel_first = !last_panel_first) {
                if (listener) listener->before_step(steps[i].row + part.begin, steps[i].row + steps[i].end);
                one_step(layer, part, steps[i], gates_of[i], last_panel_first, has_inputs);
                if (listener) listener->after_units();
            }
            count = 0;
        };
        each_step(layer, part.begin, part.end, false, [&](const Step& s) {
            steps[count++] = s;
            if (count == layer.chunk_steps) run_chunk();
        });
        if (count) run_chunk();
    }

    static void multiply_inputs_of(const LayerForward& layer, const Part& part, std::size_t count, const Step* steps,
                                   T* const* gates)
    {
        std::array<typename P::Rows, max_chunk_steps> ranges;
        std::size_t used = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t k = layer.reverse ? count - 1 - i : i;
            const Step& s = steps[k];
            const T* x = static_cast<const T*>(layer.x) + (s.row + s.begin) * layer.width;
            if (used) {
                auto& last = ranges[used - 1];
                if (last.a + last.count * layer.width == x && last.c + last.count * 4 * layer.hidden == gates[k]) {
                    last.count += s.end - s.begin;
                    continue;
                }
            }
            ranges[used++] = {s.end - s.begin, x, gates[k]};
        }
        multiply_input(layer, part, ranges.data(), used);
    }

    // gates: of row s.begin, with the input's part of the gates' arguments
    static void one_step(const LayerForward& layer, const Part& part, const Step& s, T* gates, bool last_panel_first,
                         bool from_elsewhere)
    {
        const std::size_t hidden = layer.hidden, u = part.first_unit;
        T *y = static_cast<T*>(layer.y), *cells = static_cast<T*>(layer.cells);
        each_row_range(s, y, cells, layer, [&](std::size_t first, std::size_t last, const T* h, const T* c) {
            const std::size_t row = s.row + first, count = last - first;
            T* g = gates + (first - s.begin) * 4 * hidden;
            if (from_elsewhere && count == 1) prefetch(layer.reverse ? g - 4 * hidden : g + 4 * hidden, 4 * hidden);
            const typename P::Rows rows{count, h, g + layout.first_state * hidden};
            multiply({hidden, layout.columns * hidden, static_cast<const T*>(layer.weights), hidden, 4 * hidden},
                     layout.columns, part, hidden, &rows, 1, last_panel_first);
            T* state = cells ? cells + (layer.keep ? row : first) * hidden + u : nullptr;
            Kernel::forward(count, hidden, part.last_unit - u, g + u, h + u, layer.keep && c ? c + u : state,
                            y + row * hidden + u, state, layer.keep);
        });
    }

    static void backward(const LayerBackward& layer, const Part& part, StepListener* listener)
    {
        const std::size_t hidden = layer.hidden, u = part.first_unit;
        const T *y = static_cast<const T*>(layer.y), *cells = static_cast<const T*>(layer.cells);
        T *slopes = static_cast<T*>(layer.slopes), *dh = static_cast<T*>(layer.dh), *dc = static_cast<T*>(layer.dc);
        bool last_panel_first = false;
        each_step(layer, part.begin, part.end, true, [&](const Step& s) {
            each_row_range(s, y, cells, layer, [&](std::size_t first, std::size_t last, const T* h, const T* c) {
                const std::size_t row = s.row + first;
                Kernel::backward(last - first, hidden, part.last_unit - u,
                                 static_cast<const T*>(layer.gates) + row * 4 * hidden + u, h + u, c ? c + u : nullptr,
                                 cells ? cells + row * hidden + u : nullptr,
                                 static_cast<const T*>(layer.grad_y) + row * hidden + u, slopes + row * 4 * hidden + u,
                                 dh + first * hidden + u, dc ? dc + first * hidden + u : nullptr);
            });
            if (listener) listener->after_units();
            if (!layer.weights) return;
            const typename P::Rows rows{s.end - s.begin,
                                        slopes + (s.row + s.begin) * 4 * hidden + layout.first_state * hidden,
                                        dh + s.begin * hidden};
            multiply({layout.columns * hidden, hidden, static_cast<const T*>(layer.weights), 4 * hidden, hidden}, 1,
                     part, hidden, &rows, 1, last_panel_first);
            last_panel_first = !last_panel_first;
        });
    }

    static void gates(std::size_t rows, std::size_t hidden, void* gates, const void* h, const void* c, void* new_h,
                      void* new_c, bool keep)
    {
        Kernel::forward(rows, hidden, hidden, static_cast<T*>(gates), static_cast<const T*>(h),
                        static_cast<const T*>(c), static_cast<T*>(new_h), static_cast<T*>(new_c), keep);
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
            {{Product<float, Isa>::panel, Product<float, Isa>::panels, Product<float, Isa>::size,
              Product<float, Isa>::pack},
             {Product<double, Isa>::panel, Product<double, Isa>::panels, Product<double, Isa>::size,
              Product<double, Isa>::pack}},
            {{GradientLoops<float, Isa>::multiply, GradientLoops<float, Isa>::add_outer},
             {GradientLoops<double, Isa>::multiply, GradientLoops<double, Isa>::add_outer}}};
}

}  // namespace
}  // namespace isrlu
