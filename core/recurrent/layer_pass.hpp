// What the forward and the backward pass of a layer share: packing of its weights, initial states, division among
// threads.
#pragma once

#include <cstring>

#include "activation/threaded.hpp"
#include "recurrent/run_layer.hpp"
#include "recurrent/scratch.hpp"

namespace isrlu {

// The least work per thread.
constexpr std::size_t min_batch_rows = 4;  // rows of a batch: every thread reads all weights, too much for fewer rows
constexpr std::size_t min_packed_bytes = std::size_t(128) << 10;  // of weights

// Two threads divide the units if W_hh has at least so many bytes for each row of the batch, and the steps are not few.
// A batch whose rows can be divided as well needs more. Measured on Zen 4: docs/rnn.md, "Threads".
constexpr std::size_t split_bytes_per_row = std::size_t(128) << 10, split_bytes_instead_of_rows = std::size_t(512)
                                                                                                  << 10;
constexpr std::size_t min_split_steps = 4;

// W_ih or W_hh [columns * hidden, width], to be packed. transposed: for the product with gradients.
struct Weights {
    const LayerKind& kind;
    const void* weight;
    std::size_t rows, width, first_row;
    bool transposed;

    std::size_t bytes() const
    {
        const std::size_t elements = transposed ? kind.packing->size(rows, width) : kind.packing->size(width, rows);
        return Scratch::round_up(kind.element_size * elements);
    }
    const void* pack(Scratch& scratch) const
    {
        void* packed = scratch.take(bytes());
        const std::size_t panels = kind.packing->panels(transposed ? width : rows);
        parallel(panels, 1 + min_packed_bytes * panels / bytes(), [&](std::size_t first, std::size_t last) {
            kind.packing->pack(weight, rows, width, first_row, transposed, first, last, packed);
        });
        return packed;
    }
};
inline Weights input_weights(const LayerKind& kind, const void* weight, std::size_t hidden, std::size_t width,
                             bool transposed)
{
    return {kind, weight, kind.layout.columns * hidden, width, 0, transposed};
}
inline Weights state_weights(const LayerKind& kind, const void* weight, std::size_t hidden, bool transposed)
{
    return {kind, weight, kind.layout.columns * hidden, hidden, kind.layout.first_state_block * hidden, transposed};
}

// The initial states, or zeros if h is null.
struct InitialStates {
    const void *h0, *c0;
    InitialStates(const void* h, const void* c, std::size_t bytes, Scratch& scratch) : h0(h), c0(c)
    {
        if (!h) h0 = c0 = std::memset(scratch.take(bytes), 0, bytes);
    }
};

// Units of the first of two threads that divide them, or 0 if threads divide the rows of the batch.
inline std::size_t units_of_first_thread(const LayerKind& kind, const Sequence& sequence)
{
    const std::size_t panel = kind.packing->panel,
                      weight_bytes = 4 * sequence.hidden * sequence.hidden * kind.element_size;
    if (sequence.hidden % panel || sequence.hidden < 2 * panel || sequence.steps < min_split_steps) return 0;
    const std::size_t least = sequence.batch < 2 * min_batch_rows ? split_bytes_per_row : split_bytes_instead_of_rows;
    if (sequence.batch * least > weight_bytes) return 0;
    return sequence.hidden / panel / 2 * panel;
}
// Each thread takes some rows of the batch through the whole sequence.
template <class F> void split_batch(const Sequence& sequence, F run)
{
    parallel(sequence.batch, min_batch_rows, [&](std::size_t begin, std::size_t end) {
        run(Part{begin, end, 0, sequence.hidden}, static_cast<StepListener*>(nullptr));
    });
}

}  // namespace isrlu
