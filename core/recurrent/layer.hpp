// One layer of an LSTM or GRU in one direction: what its kernels are given.
//
// Rows lie step by step, those of a step in the order of the batch: sizes[t] of them, never increasing. Rows of the batch are independent of
// each other through the whole sequence, so threads share out the batch and never wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "activation/kernel_table.hpp"

namespace isrlu {

enum class Cell { lstm, gru };
enum class Gates { isru, exact };
constexpr std::string_view cell_names[] = {"LSTM", "GRU"};
constexpr std::string_view gates_names[] = {"isru", "exact"};
constexpr int cell_count = 2, gates_count = 2, recurrent_types = 2;  // float32, float64

// How a row of gates [4 hidden] is laid out. This is the one place that knows it.
//
// A GRU's n = t(x part + r * state part) keeps the two parts of its argument apart: q is the state's. The order q r z n leaves what the state is
// multiplied with (q r z) side by side, and what the input is multiplied with (r z n), so that each product is one matrix.
struct GateLayout {
    std::string_view order;
    std::size_t columns;  // blocks of `hidden` rows in W_ih and W_hh
    std::size_t first_input, first_state;  // the first column that W_ih x, or W_hh h, is added to
    std::size_t first_state_block;  // the block of W_hh that belongs to column first_state: PyTorch's W_hh is r z n
};
constexpr GateLayout gate_layouts[] = {{"ifgo", 4, 0, 0, 0}, {"qrzn", 3, 1, 0, 2}};
constexpr const GateLayout& layout_of(Cell cell) { return gate_layouts[static_cast<int>(cell)]; }

namespace lstm {
enum Column : std::size_t { i, f, g, o };
}
namespace gru {
enum Column : std::size_t { q, r, z, n };
}

struct Sequence {
    std::size_t steps, batch, hidden;
    const std::int64_t* sizes;  // null: `batch` in each step
    bool reverse;
};
struct Layer : Sequence {
    const void* weights;  // packed; null in a backward pass that leaves the product with the slopes to its caller
    const void *h0, *c0;  // [batch, hidden]
};
struct LayerForward : Layer {
    std::size_t width;  // of the input
    const void* x;  // [rows, width]
    const void* input_weights;  // packed
    const void* biases;  // [4 hidden]: what a row of gates starts from
    void* gates;  // [rows, 4 hidden]: the gates' outputs on return if they are kept
    void* y;  // [rows, hidden]
    void*
        cells;  // [rows, hidden] if they are kept, else [batch, hidden] with c0 on entry and the last cell states on return
    bool keep;
};
struct LayerBackward : Layer {
    const void *gates, *y, *cells, *grad_y;  // from the forward pass; grad_y [rows, hidden]
    void* slopes;  // [rows, 4 hidden]: gradients of the gates' arguments
    void *dh, *dc;  // [batch, hidden]: gradients of the last states on entry, of the initial ones on return
};

// Kernels of one cell, kind of gates and type. `from` and `to` are rows of the batch; for `multiply_input` they are rows of all steps.
struct Recurrence {
    void (*add_biases)(std::size_t hidden, const void* b_ih, const void* b_hh, void* row);
    void (*multiply_input)(const LayerForward&, std::size_t from, std::size_t to);
    void (*forward)(const LayerForward&, std::size_t from, std::size_t to);
    void (*backward)(const LayerBackward&, std::size_t from, std::size_t to);
    // the gates' arguments of one step, from the products of its input and its state, biases included
    void (*join_products)(std::size_t rows, std::size_t hidden, const void* input, const void* state, void* gates);
    // the gates of one step alone: rows of 4 hidden, states of hidden
    void (*gates)(std::size_t rows, std::size_t hidden, void* gates, const void* h, const void* c, void* new_h,
                  void* new_c, bool keep);
};

// Weights W [rows, width] laid out for the product: with rows of states or inputs (a sum over width), or, transposed, with the gradients' (a sum
// over W's rows). W's row (i + first_row) % rows comes i-th.
struct Packing {
    std::size_t (*size)(std::size_t depth, std::size_t columns);  // elements
    void (*pack)(const void* weights, std::size_t rows, std::size_t width, std::size_t first_row, bool transposed,
                 void* packed);
};

// The recurrent kernels of one instruction set. They are a table of their own because they compile apart from the others.
struct RecurrentKernels {
    Recurrence recurrences[cell_count][gates_count][recurrent_types];
    Packing packings[recurrent_types];
};

}  // namespace isrlu
