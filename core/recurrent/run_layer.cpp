#include "recurrent/run_layer.hpp"

#include <algorithm>
#include <cstring>

#include "recurrent/input_pipeline.hpp"
#include "recurrent/layer_pass.hpp"
#include "recurrent/unit_split.hpp"

namespace isrlu {
namespace {

// The least work per thread.
constexpr std::size_t min_step_units = 8192;  // hidden units of one step, over all its rows
constexpr std::size_t min_product_bytes = std::size_t(2) << 20;  // bytes of gates * elements of an input row

// Bytes of the gates of one chunk of steps.
constexpr std::size_t chunk_bytes = std::size_t(512) << 10;

// Copies the last row of each sequence of the batch, from [rows, bytes] to [batch, bytes].
void copy_last_rows(const Sequence& sequence, std::size_t rows, std::size_t bytes, const void* src, void* dst)
{
    const auto copy = [&](std::size_t row, std::size_t b, std::size_t count) {
        std::memcpy(static_cast<char*>(dst) + b * bytes, static_cast<const char*>(src) + row * bytes, count * bytes);
    };
    if (sequence.reverse) return copy(0, 0, sequence.batch);
    if (!sequence.sizes) return copy(rows - sequence.batch, 0, sequence.batch);
    std::size_t row = rows, done = 0;
    for (std::size_t t = sequence.steps; t-- > 0;) {
        const auto size = static_cast<std::size_t>(sequence.sizes[t]);
        row -= size;
        copy(row + done, done, size - done);
        done = size;
    }
}

// The packed weights of a forward pass.
struct PackedLayer {
    const void *input, *state, *biases;
};
std::size_t packed_bytes(const LayerKind& kind, std::size_t hidden, std::size_t width)
{
    return state_weights(kind, nullptr, hidden, false).bytes() +
           input_weights(kind, nullptr, hidden, width, false).bytes() +
           Scratch::round_up(4 * hidden * kind.element_size);
}
PackedLayer pack(const LayerKind& kind, std::size_t hidden, std::size_t width, const void* w_ih, const void* w_hh,
                 const void* b_ih, const void* b_hh, Scratch& scratch)
{
    void* biases = scratch.take(4 * hidden * kind.element_size);
    kind.kernels->add_biases(hidden, b_ih, b_hh, biases);
    return {input_weights(kind, w_ih, hidden, width, false).pack(scratch),
            state_weights(kind, w_hh, hidden, false).pack(scratch), biases};
}

// How a forward pass is divided.
struct ForwardPlan {
    bool keep, pipeline;
    std::size_t split_units, gates_bytes, states_bytes, chunk_steps, scratch_rows;

    ForwardPlan(const LayerKind& kind, const Sequence& sequence, const ForwardArrays& a)
        : keep(a.gates != nullptr),
          split_units(units_of_first_thread(kind, sequence)),
          gates_bytes(4 * sequence.hidden * kind.element_size),
          states_bytes(sequence.batch * sequence.hidden * kind.element_size)
    {
        pipeline =
            !split_units && sequence.batch <= min_batch_rows && a.rows * gates_bytes * a.width >= min_product_bytes;
        chunk_steps = std::clamp<std::size_t>(chunk_bytes / (sequence.batch * gates_bytes), 1,
                                              std::min(sequence.steps, max_chunk_steps));
        scratch_rows = keep ? 0 : pipeline ? a.rows : chunk_steps * sequence.batch;
    }
};
std::size_t forward_bytes(const LayerKind& kind, const Sequence& sequence, const ForwardArrays& a)
{
    const ForwardPlan plan(kind, sequence, a);
    return Scratch::round_up(plan.states_bytes) + plan.scratch_rows * plan.gates_bytes;
}

void run_packed(const LayerKind& kind, const Sequence& sequence, const ForwardArrays& a, const PackedLayer& weights,
                Scratch& scratch)
{
    const ForwardPlan plan(kind, sequence, a);
    const std::size_t state_bytes = sequence.hidden * kind.element_size;
    const InitialStates initial(a.h0, a.c0, plan.states_bytes, scratch);
    if (a.c && !plan.keep) std::memcpy(a.c, initial.c0, plan.states_bytes);
    const LayerForward layer{{sequence, weights.state, initial.h0, initial.c0},
                             a.width,
                             a.x,
                             weights.input,
                             weights.biases,
                             plan.keep ? a.gates : scratch.take(plan.scratch_rows * plan.gates_bytes),
                             plan.chunk_steps,
                             a.y,
                             plan.keep ? a.cells : a.c,
                             plan.keep};
    const auto run = [&](const Part& part, StepListener* listener) { kind.kernels->forward(layer, part, listener); };
    if (plan.split_units) UnitSplit().run(sequence, plan.split_units, run);
    else if (plan.pipeline) InputPipeline(*kind.kernels, layer, a.rows).run();
    else split_batch(sequence, run);
    copy_last_rows(sequence, a.rows, state_bytes, a.y, a.h);
    if (a.c && plan.keep) copy_last_rows(sequence, a.rows, state_bytes, a.cells, a.c);
}

}  // namespace

PackedWeights::PackedWeights(const LayerKind& k, std::size_t hidden_size, std::size_t input_size, const void* w_ih,
                             const void* w_hh, const void* b_ih, const void* b_hh)
    : kind(k),
      hidden(hidden_size),
      width(input_size),
      memory_(Scratch::owned(packed_bytes(k, hidden_size, input_size)))
{
    const PackedLayer packed = pack(kind, hidden, width, w_ih, w_hh, b_ih, b_hh, memory_);
    input = packed.input;
    state = packed.state;
    biases = packed.biases;
}

void run_forward(const LayerKind& kind, const Sequence& sequence, const ForwardArrays& a)
{
    Scratch scratch(packed_bytes(kind, sequence.hidden, a.width) + forward_bytes(kind, sequence, a));
    run_packed(kind, sequence, a, pack(kind, sequence.hidden, a.width, a.w_ih, a.w_hh, a.b_ih, a.b_hh, scratch),
               scratch);
}

void run_forward(const PackedWeights& weights, const Sequence& sequence, const ForwardArrays& a)
{
    Scratch scratch(forward_bytes(weights.kind, sequence, a));
    run_packed(weights.kind, sequence, a, {weights.input, weights.state, weights.biases}, scratch);
}

void run_step(const LayerKind& kind, const StepArrays& a)
{
    const std::size_t state_bytes = a.hidden * kind.element_size, gates_bytes = 4 * state_bytes,
                      product_bytes = kind.layout.columns * state_bytes;
    Scratch scratch(a.gates ? 0 : a.rows * gates_bytes);
    char* gates = static_cast<char*>(a.gates ? a.gates : scratch.take(a.rows * gates_bytes));
    parallel(a.rows, 1 + min_step_units / a.hidden, [&](std::size_t begin, std::size_t end) {
        const auto in = [&](const void* p, std::size_t bytes) {
            return p ? static_cast<const char*>(p) + begin * bytes : nullptr;
        };
        const auto out = [&](void* p, std::size_t bytes) {
            return p ? static_cast<char*>(p) + begin * bytes : nullptr;
        };
        char* rows = gates + begin * gates_bytes;
        kind.kernels->join_products(end - begin, a.hidden, in(a.input, product_bytes), in(a.state, product_bytes),
                                    rows);
        kind.kernels->gates(end - begin, a.hidden, rows, in(a.h, state_bytes), in(a.c, state_bytes),
                            out(a.new_h, state_bytes), out(a.new_c, state_bytes), a.gates != nullptr);
    });
}

}  // namespace isrlu
