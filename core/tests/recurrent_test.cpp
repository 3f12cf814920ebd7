// Recurrent layers, forward and backward: every instruction set against the scalar build, for hidden sizes around the
// number of lanes.
#include <cmath>
#include <vector>

#include "isa/dispatch.hpp"
#include "recurrent/layer.hpp"
#include "tests/check.hpp"

namespace isrlu::testing {
namespace {

constexpr std::size_t steps = 4, batch = 5, width = 6, rows = steps * batch;

template <class T> std::vector<T> numbers(std::size_t n, int seed, double scale)
{
    std::vector<T> made(n);
    for (std::size_t i = 0; i < n; ++i)
        made[i] = static_cast<T>(
            scale * (static_cast<double>((i * 37 + static_cast<std::size_t>(seed) * 101) % 1009) / 504.5 - 1));
    return made;
}

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

TEST(layers_are_those_of_the_scalar_build)
{
    compare<float>(kernels, 0, 2e-5);
    compare<double>(kernels, 1, 1e-13);
}

}  // namespace isrlu::testing
