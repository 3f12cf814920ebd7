// Gradients of a recurrent layer's inputs and weights, against plain loops over the rows.
#include <algorithm>
#include <cmath>
#include <vector>

#include "isa/dispatch.hpp"
#include "recurrent/run_layer.hpp"
#include "tests/check.hpp"
#include "tests/numbers.hpp"

namespace isrlu::testing {
namespace {

// The gradients of inputs and weights by run_gradients, and by plain loops over the slopes of run_backward.
struct GradientCase {
    Cell cell;
    bool reverse, has_h0;
    std::vector<std::int64_t> sizes;
    std::size_t hidden, width;
};
template <class T> double worst_gradient(const LayerKind& kind, const GradientCase& g)
{
    const std::size_t n = static_cast<std::size_t>(g.sizes.front()), hidden = g.hidden;
    const std::size_t columns = kind.layout.columns * hidden;
    std::vector<std::size_t> first{0};
    for (const auto size : g.sizes) first.push_back(first.back() + static_cast<std::size_t>(size));
    const std::size_t all = first.back();
    const bool equal = g.sizes.front() == g.sizes.back();
    const Sequence sequence{g.sizes.size(), n, hidden, equal ? nullptr : g.sizes.data(), g.reverse};
    const auto x = numbers<T>(all * g.width, 1, 1), w_ih = numbers<T>(columns * g.width, 2, 0.5),
               w_hh = numbers<T>(columns * hidden, 3, 0.1), h0 = numbers<T>(n * hidden, 6, 0.8),
               gates = numbers<T>(all * 4 * hidden, 7, 0.4), y = numbers<T>(all * hidden, 8, 0.9),
               cells = numbers<T>(all * hidden, 9, 0.9), grad = numbers<T>(all * hidden, 10, 1);
    std::vector<T> slopes(all * 4 * hidden), dh(n * hidden), dc(n * hidden), dx(x.size()), dw_ih(w_ih.size(), T(5)),
        dw_hh(w_hh.size(), T(5)), db_ih(columns, T(5)), db_hh(columns, T(5));
    const T* initial = g.has_h0 ? h0.data() : nullptr;
    const BackwardArrays arrays{w_hh.data(),  initial,     initial,       gates.data(), y.data(),
                                cells.data(), grad.data(), slopes.data(), dh.data(),    dc.data()};
    run_backward(kind, sequence, arrays);
    std::fill(dh.begin(), dh.end(), T(0));
    std::fill(dc.begin(), dc.end(), T(0));
    run_gradients(
        kind, sequence, arrays,
        {all, g.width, x.data(), w_ih.data(), dx.data(), dw_ih.data(), dw_hh.data(), db_ih.data(), db_hh.data()});

    std::vector<double> of_x(dx.size()), of_ih(dw_ih.size()), of_hh(dw_hh.size()), b_ih(columns), b_hh(columns);
    for (std::size_t t = 0; t < g.sizes.size(); ++t)
        for (std::size_t b = 0; first[t] + b < first[t + 1]; ++b) {
            const std::size_t row = first[t] + b, before = g.reverse ? t + 1 : t - 1;
            const bool known = g.reverse ? t + 2 < first.size() && first[before] + b < first[before + 1] : t > 0;
            const T *s = &slopes[row * 4 * hidden], *previous = known ? &y[(first[before] + b) * hidden] : nullptr;
            if (!known && g.has_h0) previous = &h0[b * hidden];
            for (std::size_t i = 0; i < columns; ++i) {
                const double in = static_cast<double>(s[kind.layout.first_input * hidden + i]);
                const double state = static_cast<double>(s[kind.layout.first_state * hidden + i]);
                const std::size_t to = (i + kind.layout.first_state_block * hidden) % columns;
                b_ih[i] += in;
                b_hh[to] += state;
                for (std::size_t j = 0; j < g.width; ++j) {
                    of_ih[i * g.width + j] += in * static_cast<double>(x[row * g.width + j]);
                    of_x[row * g.width + j] += in * static_cast<double>(w_ih[i * g.width + j]);
                }
                for (std::size_t j = 0; previous && j < hidden; ++j)
                    of_hh[to * hidden + j] += state * static_cast<double>(previous[j]);
            }
        }
    double worst = 0;
    const auto compare = [&](const std::vector<T>& found, const std::vector<double>& expected) {
        for (std::size_t i = 0; i < found.size(); ++i) {
            const double off = std::fabs(static_cast<double>(found[i]) - expected[i]) / (1 + std::fabs(expected[i]));
            worst = off > worst || std::isnan(off) ? off : worst;
        }
    };
    compare(dx, of_x);
    compare(dw_ih, of_ih);
    compare(dw_hh, of_hh);
    compare(db_ih, b_ih);
    compare(db_hh, b_hh);
    return worst;
}

}  // namespace

// 1030 rows are more than are packed at once; 130 are more than a depth block.
TEST(gradients_are_sums_over_the_rows)
{
    for (const Cell cell : {Cell::lstm, Cell::gru})
        for (const bool reverse : {false, true})
            for (const bool has_h0 : {false, true})
                for (const auto& sizes : {std::vector<std::int64_t>{2, 2}, {515, 515}, {60, 60, 10}, {7, 3, 3, 1}})
                    for (const std::size_t hidden : {3, 35}) {
                        const GradientCase g{cell, reverse, has_h0, sizes, hidden, 40};
                        const LayerKind single = layer_kind(kernels, cell, Gates::isru, Type::float32),
                                        twice = layer_kind(kernels, cell, Gates::isru, Type::float64);
                        const double off = worst_gradient<float>(single, g), off64 = worst_gradient<double>(twice, g);
                        CHECK(off <= 2e-5 && off64 <= 1e-13, cell_names[int(cell)], " hidden ", hidden, " steps ",
                              sizes.size(), ": ", off, " ", off64);
                    }
}

}  // namespace isrlu::testing
