// Recurrent layers, forward and backward: every instruction set against the scalar build, for hidden sizes around the
// number of lanes.
#include <cmath>
#include <vector>

#include "isa/dispatch.hpp"
#include "recurrent/layer.hpp"
#include "recurrent/run_layer.hpp"
#include "tests/check.hpp"
#include "tests/numbers.hpp"
#include "tests/threads.hpp"

namespace isrlu::testing {
namespace {

constexpr std::size_t steps = 4, batch = 5, width = 6, rows = steps * batch;

template <class T>
std::vector<T> packed(const Packing& packing, const std::vector<T>& weights, std::size_t hidden_columns,
                      std::size_t row_elements, std::size_t first, bool transposed)
{
    std::vector<T> to(transposed ? packing.size(hidden_columns, row_elements)
                                 : packing.size(row_elements, hidden_columns));
    const std::size_t panels = packing.panels(transposed ? row_elements : hidden_columns);
    packing.pack(weights.data(), hidden_columns, row_elements, first, transposed, 0, 1, to.data());
    packing.pack(weights.data(), hidden_columns, row_elements, first, transposed, 1, panels, to.data());
    return to;
}

// Outputs, gates, cell states, slopes and gradients of the initial states, concatenated.
template <class T>
std::vector<T> outcome(const RecurrentKernels& k, Cell cell, Gates kind, int type, std::size_t hidden, bool reverse)
{
    const Recurrence& kernels = k.recurrences[int(cell)][int(kind)][type];
    const Packing& packing = k.packings[type];
    const std::size_t columns = layout_of(cell).columns * hidden, first = layout_of(cell).first_state_block * hidden;
    const auto x = numbers<T>(rows * width, 1, 1), w_ih = numbers<T>(columns * width, 2, 0.5),
               w_hh = numbers<T>(columns * hidden, 3, 0.3);
    const auto b_ih = numbers<T>(columns, 4, 0.2), b_hh = numbers<T>(columns, 5, 0.2),
               h0 = numbers<T>(batch * hidden, 6, 0.8), c0 = numbers<T>(batch * hidden, 7, 0.8);
    const auto of_state = packed(packing, w_hh, columns, hidden, first, false),
               of_slopes = packed(packing, w_hh, columns, hidden, first, true);
    const auto of_input = packed(packing, w_ih, columns, width, 0, false);
    const bool has_cells = cell == Cell::lstm;
    std::vector<T> biases(4 * hidden), gates(rows * 4 * hidden), y(rows * hidden), cells(rows * hidden),
        slopes(rows * 4 * hidden);
    std::vector<T> dh = numbers<T>(batch * hidden, 8, 1), dc = numbers<T>(batch * hidden, 9, 1);
    const auto grad = numbers<T>(rows * hidden, 10, 1);

    kernels.add_biases(hidden, b_ih.data(), b_hh.data(), biases.data());
    const Layer layer{
        {steps, batch, hidden, nullptr, reverse}, of_state.data(), h0.data(), has_cells ? c0.data() : nullptr};
    const LayerForward forward{layer,
                               width,
                               x.data(),
                               of_input.data(),
                               biases.data(),
                               gates.data(),
                               3,
                               y.data(),
                               has_cells ? cells.data() : nullptr,
                               true};
    kernels.forward(forward, {0, 1, 0, hidden}, nullptr);
    kernels.forward(forward, {1, batch, 0, hidden}, nullptr);
    LayerBackward backward{layer,       gates.data(),  y.data(),  has_cells ? cells.data() : nullptr,
                           grad.data(), slopes.data(), dh.data(), has_cells ? dc.data() : nullptr};
    backward.weights = of_slopes.data();
    kernels.backward(backward, {0, batch, 0, hidden}, nullptr);

    std::vector<T> all;
    for (const auto* part : {&y, &gates, &cells, &slopes, &dh, &dc}) all.insert(all.end(), part->begin(), part->end());
    return all;
}

template <class T> void compare(const Kernels& set, int type, double tolerance)
{
    for (const Cell cell : {Cell::lstm, Cell::gru})
        for (const Gates kind : {Gates::isru, Gates::exact})
            for (const std::size_t hidden : {1, 7, 16, 19, 70})
                for (const bool reverse : {false, true}) {
                    const auto here = outcome<T>(*set.recurrent, cell, kind, type, hidden, reverse),
                               scalar =
                                   outcome<T>(*kernels_named("scalar").recurrent, cell, kind, type, hidden, reverse);
                    double worst = 0;
                    for (std::size_t i = 0; i < here.size(); ++i) {
                        const double off = std::fabs(static_cast<double>(here[i]) - static_cast<double>(scalar[i])) /
                                           (1 + std::fabs(static_cast<double>(scalar[i])));
                        worst = off > worst || std::isnan(off) ? off : worst;
                    }
                    CHECK(worst <= tolerance, cell_names[int(cell)], " ", gates_names[int(kind)], " ", type_names[type],
                          " hidden ", hidden, ": ", worst);
                }
}

}  // namespace

namespace {

// Outputs, last states and all gradients by run_forward and run_gradients, concatenated.
template <class T> std::vector<T> whole_layer(const LayerKind& kind, std::size_t n, std::size_t hidden, bool packed)
{
    const std::size_t columns = kind.layout.columns * hidden, states = n * hidden, all = steps * states;
    const auto x = numbers<T>(steps * n * width, 1, 1), w_ih = numbers<T>(columns * width, 2, 0.5),
               w_hh = numbers<T>(columns * hidden, 3, 0.1), bias = numbers<T>(columns, 4, 0.2),
               h0 = numbers<T>(states, 6, 0.8), grad = numbers<T>(all, 10, 1);
    std::vector<T> y(all), h(states), c(states), gates(4 * all), cells(all), dh(states), dc(states), dx(x.size()),
        dw_ih(w_ih.size()), dw_hh(w_hh.size()), db_ih(columns), db_hh(columns);
    const Sequence sequence{steps, n, hidden, nullptr, false};
    ForwardArrays arrays{steps * n, width,     x.data(), w_ih.data(), w_hh.data(), bias.data(), bias.data(),
                         h0.data(), h0.data(), y.data(), h.data(),    c.data(),    nullptr,     nullptr};
    if (packed)
        run_forward(PackedWeights(kind, hidden, width, w_ih.data(), w_hh.data(), bias.data(), bias.data()), sequence,
                    arrays);
    else {
        arrays.gates = gates.data();
        arrays.cells = cells.data();
        run_forward(kind, sequence, arrays);
        run_gradients(kind, sequence,
                      {w_hh.data(), h0.data(), h0.data(), gates.data(), y.data(), cells.data(), grad.data(), nullptr,
                       dh.data(), dc.data()},
                      {steps * n, width, x.data(), w_ih.data(), dx.data(), dw_ih.data(), dw_hh.data(), db_ih.data(),
                       db_hh.data()});
    }
    std::vector<T> found;
    for (const auto* part : {&y, &h, &c, &dh, &dc, &dx, &dw_ih, &dw_hh, &db_ih, &db_hh})
        found.insert(found.end(), part->begin(), part->end());
    return found;
}

}  // namespace

// Hidden 128 with 1 row: units are divided. 70: rows are, or the inputs are multiplied ahead.
TEST(two_threads_change_nothing)
{
    for (const Cell cell : {Cell::lstm, Cell::gru})
        for (const std::size_t hidden : {70, 128})
            for (const std::size_t n : {1, 9})
                for (const bool packed : {false, true}) {
                    const LayerKind kind = layer_kind(kernels, cell, Gates::isru, Type::float32);
                    const auto alone = whole_layer<float>(kind, n, hidden, packed);
                    const Threads scope(2);
                    const auto together = whole_layer<float>(kind, n, hidden, packed);
                    CHECK(alone == together, cell_names[int(cell)], " hidden ", hidden, " rows ", n);
                }
}

TEST(layers_are_those_of_the_scalar_build)
{
    compare<float>(kernels, 0, 2e-5);
    compare<double>(kernels, 1, 1e-13);
}

}  // namespace isrlu::testing
