// Whole recurrent layers: packs the weights and divides the work among PyTorch's threads. Results do not depend on the
// number of threads.
#pragma once

#include "recurrent/layer.hpp"
#include "recurrent/scratch.hpp"

namespace isrlu {

// The kernels of one cell, kind of gates and type.
struct LayerKind {
    const Recurrence* kernels;
    const Packing* packing;
    const GradientProducts* products;
    GateLayout layout;
    std::size_t element_size;  // bytes
};
inline LayerKind layer_kind(const Kernels& set, Cell cell, Gates gates, Type type)
{
    const auto t = static_cast<int>(type);
    const RecurrentKernels& kernels = *set.recurrent;
    return {&kernels.recurrences[static_cast<int>(cell)][static_cast<int>(gates)][t], &kernels.packings[t],
            &kernels.gradient_products[t], layout_of(cell), type_sizes[t]};
}

// W_ih, W_hh and the biases of a layer in one direction, packed once for many calls of run_forward. Constant: several
// threads may use one.
class PackedWeights {
public:
    PackedWeights(const LayerKind& kind, std::size_t hidden, std::size_t width, const void* w_ih, const void* w_hh,
                  const void* b_ih, const void* b_hh);

    const LayerKind kind;
    const std::size_t hidden, width;
    const void *input, *state, *biases;

private:
    Scratch memory_;
};

// All arrays are dense. Null for what a layer does not have: biases, initial states (then zeros), cell states (GRU).
struct ForwardArrays {
    std::size_t rows, width;  // of x: rows of all steps, elements of a row
    const void *x, *w_ih, *w_hh, *b_ih, *b_hh, *h0, *c0;
    void* y;  // [rows, hidden]
    void *h, *c;  // [batch, hidden]: the last states
    void *gates, *cells;  // [rows, 4 hidden] and [rows, hidden]: for the backward pass; null in inference
};
void run_forward(const LayerKind& kind, const Sequence& sequence, const ForwardArrays& arrays);
// In inference; w_ih, w_hh and the biases of `arrays` are not read.
void run_forward(const PackedWeights& weights, const Sequence& sequence, const ForwardArrays& arrays);

struct BackwardArrays {
    const void* w_hh;  // null: the caller multiplies the slopes by it, as for a single step
    const void *h0, *c0, *gates, *y, *cells, *grad_y;
    void* slopes;  // [rows, 4 hidden]
    void *dh, *dc;  // [batch, hidden]: gradients of the last states on entry, of the initial states on return
};
void run_backward(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& arrays);

// The other gradients, which follow from the slopes. Null for what is not wanted; both biases or none.
struct GradientArrays {
    std::size_t rows, width;  // of x
    const void *x, *w_ih;
    void *dx, *dw_ih, *dw_hh, *db_ih, *db_hh;
};
// run_backward, and these gradients. The slopes are not returned: arrays.slopes is ignored.
void run_gradients(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& arrays,
                   const GradientArrays& grads);

// One step, from the products of its input and its state with the weights.
struct StepArrays {
    std::size_t rows, hidden;
    const void *input, *state;  // W_ih x and W_hh h with the biases: [rows, columns * hidden]
    const void *h, *c;
    void* gates;  // [rows, 4 hidden]; null in inference
    void *new_h, *new_c;
};
void run_step(const LayerKind& kind, const StepArrays& arrays);

}  // namespace isrlu
