// Whole recurrent layers: weights packed, work shared out among PyTorch's threads. Results do not depend on the number of threads.
#pragma once

#include "recurrent/layer.hpp"

namespace isrlu {

// The kernels of one kind of layer.
struct LayerKind {
    const Recurrence* kernels;
    const Packing* packing;
    GateLayout layout;
    std::size_t element_size;  // bytes
};
inline LayerKind layer_kind(const Kernels& set, Cell cell, Gates gates, Type type)
{
    const auto t = static_cast<int>(type);
    const RecurrentKernels& kernels = *set.recurrent;
    return {&kernels.recurrences[static_cast<int>(cell)][static_cast<int>(gates)][t], &kernels.packings[t],
            layout_of(cell), type_sizes[t]};
}

// All arrays are dense. A null pointer stands for what a layer does not have: biases, initial states (zeros then), an LSTM's cell states.
struct ForwardArrays {
    std::size_t rows, width;
    const void *x, *w_ih, *w_hh, *b_ih, *b_hh, *h0, *c0;
    void* y;  // [rows, hidden]
    void *h, *c;  // [batch, hidden]: last states
    void *gates, *cells;  // [rows, 4 hidden] and [rows, hidden]: kept for the backward pass; null in inference
};
void run_forward(const LayerKind& kind, const Sequence& sequence, const ForwardArrays& arrays);

struct BackwardArrays {
    const void* w_hh;  // null: the caller multiplies the slopes with it, as for a single step
    const void *h0, *c0, *gates, *y, *cells, *grad_y;
    void* slopes;  // [rows, 4 hidden]
    void *dh, *dc;  // [batch, hidden]: gradients of the last states on entry, of the initial ones on return
};
void run_backward(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& arrays);

// One step whose products with W_ih and W_hh, [rows, columns hidden], are there.
struct StepArrays {
    std::size_t rows, hidden;
    const void *input, *state;  // the products, biases included
    const void *h, *c;
    void* gates;  // [rows, 4 hidden]; null in inference
    void *new_h, *new_c;
};
void run_step(const LayerKind& kind, const StepArrays& arrays);

}  // namespace isrlu
