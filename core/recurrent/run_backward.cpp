// The backward pass of a layer: the slopes step by step, then the gradients of inputs and weights as large products.
//
// These products are divided by rows of their result, so each element is summed in the same order on any number of
// threads.
#include <algorithm>

#include "recurrent/layer_pass.hpp"
#include "recurrent/unit_split.hpp"
#include "recurrent/weight_gradients.hpp"

namespace isrlu {
namespace {

// The least work per thread.
constexpr std::size_t min_product_rows = 48;  // of the inputs' gradient

constexpr std::size_t slopes_bytes = std::size_t(8) << 20;  // of the slopes of a stretch of steps

std::size_t bytes_of_states(const LayerKind& kind, const Sequence& sequence)
{
    return sequence.batch * sequence.hidden * kind.element_size;
}
std::size_t slopes_scratch(const LayerKind& kind, const Sequence& sequence)
{
    return state_weights(kind, nullptr, sequence.hidden, true).bytes() +
           Scratch::round_up(bytes_of_states(kind, sequence));
}
const void* pack_state_weights(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& a,
                               Scratch& scratch)
{
    return a.w_hh ? state_weights(kind, a.w_hh, sequence.hidden, true).pack(scratch) : nullptr;
}

// packed: W_hh. initial: the states before the first step.
void run_slopes(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& a, const void* packed,
                const InitialStates& initial)
{
    const LayerBackward layer{
        {sequence, packed, initial.h0, initial.c0}, a.gates, a.y, a.cells, a.grad_y, a.slopes, a.dh, a.dc};
    const auto run = [&](const Part& part, StepListener* listener) { kind.kernels->backward(layer, part, listener); };
    if (const std::size_t units = units_of_first_thread(kind, sequence)) UnitSplit().run(sequence, units, run);
    else split_batch(sequence, run);
}

void clear_gradients(const LayerKind& kind, const Sequence& sequence, const GradientArrays& g)
{
    const std::size_t rows = kind.layout.columns * sequence.hidden;
    const auto clear = [&](void* array, std::size_t columns) {
        if (array) std::memset(array, 0, rows * columns * kind.element_size);
    };
    clear(g.dw_ih, g.width);
    clear(g.dw_hh, sequence.hidden);
    clear(g.db_ih, 1);
    clear(g.db_hh, 1);
}

// Some consecutive steps of a layer, from the last one backwards: `done` steps are behind us. Steps of different sizes
// are one stretch.
struct Stretch {
    Sequence sequence;
    BackwardArrays backward;
    GradientArrays gradients;
    bool has_first_step;

    Stretch(const LayerKind& kind, const Sequence& all, const BackwardArrays& a, const GradientArrays& g,
            std::size_t steps, std::size_t done)
        : sequence(all),
          backward(a),
          gradients(g),
          has_first_step(done + steps == all.steps)
    {
        if (all.sizes) return;
        sequence.steps = steps;
        gradients.rows = steps * all.batch;
        const std::size_t row = all.batch * (all.reverse ? done : all.steps - done - steps);
        const auto skip = [&](const void*& array, std::size_t columns) {
            if (array) array = static_cast<const char*>(array) + row * columns * kind.element_size;
        };
        skip(backward.gates, 4 * all.hidden);
        skip(backward.y, all.hidden);
        skip(backward.cells, all.hidden);
        skip(backward.grad_y, all.hidden);
        skip(gradients.x, g.width);
        if (g.dx) gradients.dx = static_cast<char*>(g.dx) + row * g.width * kind.element_size;
        if (has_first_step) return;
        // The states before this stretch: those of the step before it in the layer's order.
        const auto before = [&](const void* states) -> const void* {
            const std::size_t bytes = all.batch * all.hidden * kind.element_size;
            const auto* here = static_cast<const char*>(states);
            return here ? all.reverse ? here + steps * bytes : here - bytes : nullptr;
        };
        backward.h0 = before(backward.y);
        backward.c0 = before(backward.cells);
    }
};

void multiply_slopes(const LayerKind& kind, std::size_t hidden, const void* slopes, const GradientArrays& g,
                     const void* packed)
{
    const RowProduct product{kind.layout.columns * hidden,
                             g.width,
                             static_cast<const char*>(slopes) + kind.layout.first_input * hidden * kind.element_size,
                             4 * hidden,
                             packed,
                             g.dx};
    parallel(g.rows, min_product_rows,
             [&](std::size_t begin, std::size_t end) { kind.products->multiply(product, begin, end); });
}

}  // namespace

void run_backward(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& a)
{
    Scratch scratch(slopes_scratch(kind, sequence));
    const InitialStates initial(a.h0, a.c0, bytes_of_states(kind, sequence), scratch);
    run_slopes(kind, sequence, a, pack_state_weights(kind, sequence, a, scratch), initial);
}

void run_gradients(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& a, const GradientArrays& g)
{
    const std::size_t slopes_of_step = sequence.batch * 4 * sequence.hidden * kind.element_size;
    const std::size_t steps =
        sequence.sizes ? sequence.steps : std::clamp<std::size_t>(slopes_bytes / slopes_of_step, 1, sequence.steps);
    const std::size_t rows = sequence.sizes ? g.rows : steps * sequence.batch;
    const Weights of_input = input_weights(kind, g.w_ih, sequence.hidden, g.width, true);
    const std::size_t bytes = Scratch::round_up(rows * 4 * sequence.hidden * kind.element_size);
    Scratch scratch(slopes_scratch(kind, sequence) + bytes + of_input.bytes() +
                    WeightGradients::scratch_bytes(kind, sequence, rows, g.width));
    void* slopes = scratch.take(bytes);
    const InitialStates initial(a.h0, a.c0, bytes_of_states(kind, sequence), scratch);
    const void* state_weights = pack_state_weights(kind, sequence, a, scratch);
    const void* input_weights = g.dx ? of_input.pack(scratch) : nullptr;
    clear_gradients(kind, sequence, g);
    for (std::size_t done = 0; done < sequence.steps; done += steps) {
        Scratch rest = scratch.rest();
        Stretch part(kind, sequence, a, g, std::min(steps, sequence.steps - done), done);
        part.backward.slopes = slopes;
        const InitialStates before =
            part.has_first_step ? initial : InitialStates(part.backward.h0, part.backward.c0, 0, rest);
        run_slopes(kind, part.sequence, part.backward, state_weights, before);
        if (g.dx) multiply_slopes(kind, sequence.hidden, slopes, part.gradients, input_weights);
        WeightGradients(kind, part.sequence, part.backward, part.gradients).run(rest);
    }
}

}  // namespace isrlu
