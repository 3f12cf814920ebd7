// One layer of an LSTM or GRU in one direction: what its kernels are given.
//
// Rows lie step by step, those of a step in the order of the batch: sizes[t] of them, never increasing. Rows of the batch are independent of each
// other through the whole sequence, so that threads share out the batch and never wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels.hpp"

namespace isrlu {

enum class Cell { lstm, gru };
enum class Gates { isru, exact };
constexpr std::string_view cell_names[] = {"LSTM", "GRU"};
constexpr std::string_view gates_names[] = {"isru", "exact"};
constexpr int cell_count = 2, gates_count = 2, recurrent_types = 2;  // float32, float64

// How many of the four columns of a row of gates the state is multiplied with.
constexpr std::size_t state_columns(Cell cell) { return cell == Cell::lstm ? 4 : 3; }

struct Layer {
    std::size_t steps, batch, hidden;
    const std::int64_t* sizes;  // null: `batch` in each step
    bool reverse;
    const void* weights;  // packed; null in a backward pass that leaves the product with the slopes to its caller
    const void *h0, *c0;  // [batch, hidden]
};
struct LayerForward : Layer {
    std::size_t width;  // of the input
    const void* x;  // [rows, width]
    const void* input_weights;  // packed
    const void* start;  // [4 hidden]: the biases, from which a row of gates starts
    void* gates;  // [rows, 4 hidden]: the gates' outputs on return if they are kept
    void* y;  // [rows, hidden]
    void* cells;  // [rows, hidden] if they are kept, else [batch, hidden] with c0 on entry and the last cell states on return
    bool keep;
    // called before each step with the rows whose input's part it needs; null if that is there
    void (*before_step)(void* context, std::size_t from, std::size_t to) = nullptr;
    void* before_step_context = nullptr;
};
struct LayerBackward : Layer {
    const void *gates, *y, *cells, *grad_y;  // from the forward pass; grad_y [rows, hidden]
    void* slopes;  // [rows, 4 hidden]: gradients of the gates' arguments
    void *dh, *dc;  // [batch, hidden]: gradients of the last states on entry, of the initial ones on return
};

// Kernels of one cell, kind of gates and type. `from` and `to` are rows of the batch, of `input` those of all steps.
struct Recurrence {
    void (*start)(std::size_t hidden, const void* b_ih, const void* b_hh, void* row);
    void (*input)(const LayerForward&, std::size_t from, std::size_t to);
    void (*forward)(const LayerForward&, std::size_t from, std::size_t to);
    void (*backward)(const LayerBackward&, std::size_t from, std::size_t to);
    // the gates' arguments of one step from the products with its input and its state, biases included
    void (*arguments)(std::size_t rows, std::size_t hidden, const void* x, const void* s, void* gates);
    // the gates of one step alone: rows of 4 hidden, states of hidden
    void (*gates)(std::size_t rows, std::size_t hidden, void* gates, const void* h, const void* c, void* new_h, void* new_c, bool keep);
};

// Weights W [rows, width] laid out for the product: with rows of states or inputs (a sum over width), or, transposed, with the gradients' (a sum
// over W's rows). W's row (i + shift) % rows stands at place i.
struct Packing {
    std::size_t (*size)(std::size_t depth, std::size_t columns);  // elements
    void (*pack)(const void* weights, std::size_t rows, std::size_t width, std::size_t shift, bool transposed, void* packed);
};

// What one instruction set's build offers for recurrent layers: a table of its own, as these kernels compile apart from the others.
struct LayerKernels {
    Recurrence recurrences[cell_count][gates_count][recurrent_types];
    Packing packings[recurrent_types];
};
const LayerKernels& scalar_layers();
const LayerKernels& sse2_layers();
const LayerKernels& avx2_layers();
const LayerKernels& avx512_layers();
const LayerKernels& neon_layers();

// The table that belongs to a build.
inline const LayerKernels& layers_of(const Kernels& build)
{
#if defined(ISRLU_X86)
    if (build.name == "sse2") return sse2_layers();
    if (build.name == "avx2") return avx2_layers();
    if (build.name == "avx512") return avx512_layers();
#elif defined(ISRLU_ARM64)
    if (build.name == "neon") return neon_layers();
#endif
    return scalar_layers();
}

}  // namespace isrlu
