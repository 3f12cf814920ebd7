// One layer of an LSTM or GRU in one direction: the arguments and the table of its kernels.
//
// Rows are ordered by step, and within a step by batch index. Step t has sizes[t] rows; sizes never increase. The rows
// of a batch are independent of each other, so each thread takes some of them through the whole sequence without
// synchronization.
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
constexpr int cell_count = 2, gates_count = 2;
constexpr int recurrent_types = 2;  // float32, float64

// The layout of a row of gates [4 hidden]. No other file defines it.
//
// A GRU's n = t(x part + r * q) needs the input's and the state's part of its argument separately: column q is the
// state's part. In the order q r z n, the columns that W_hh h is added to (q r z) are adjacent, and so are those for
// W_ih x (r z n). Each product is one matrix.
struct GateLayout {
    std::string_view order;
    std::size_t columns;  // of `hidden` elements each, in the products with W_ih and W_hh
    // The first column that W_ih x, or W_hh h, is added to.
    std::size_t first_input, first_state;
    // The block of `hidden` rows of W_hh that column first_state takes. PyTorch's order for a GRU is r z n.
    std::size_t first_state_block;
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
    const std::int64_t* sizes;  // rows of each step; null: `batch` rows in every step
    bool reverse;
};
struct Layer : Sequence {
    // W_hh, packed. Null in a backward pass whose caller multiplies the slopes by W_hh.
    const void* weights;
    const void *h0, *c0;  // [batch, hidden]
};
constexpr std::size_t max_chunk_steps = 64;
struct LayerForward : Layer {
    std::size_t width;  // elements of an input row
    const void* x;  // [rows, width]
    const void* input_weights;  // W_ih, packed
    const void* biases;  // [4 hidden]: initial value of a row of gates
    // If `keep`: [rows, 4 hidden], the gates' outputs on return. The same if a listener multiplies the inputs. Else
    // [chunk_steps * batch, 4 hidden], of which batch rows [begin, end) use those from chunk_steps * begin on.
    void* gates;
    std::size_t chunk_steps;  // the inputs of so many steps are multiplied at once; at most max_chunk_steps
    void* y;  // [rows, hidden]
    // LSTM. If `keep`: [rows, hidden], all cell states on return. Else [batch, hidden]: c0 on entry, the last cell
    // states on return.
    void* cells;
    bool keep;  // gates and cells for the backward pass
};
struct LayerBackward : Layer {
    const void *gates, *y, *cells, *grad_y;  // from the forward pass; grad_y [rows, hidden]
    void* slopes;  // [rows, 4 hidden]: gradients of the gates' arguments
    void *dh, *dc;  // [batch, hidden]: gradients of the last states on entry, of the initial states on return
};

// What one thread does of a layer: rows [begin, end) of the batch, units [first_unit, last_unit) of each row. Less than
// all units are whole panels of every column: see Packing::panel.
struct Part {
    std::size_t begin, end, first_unit, last_unit;
};

// Is called in every step of a Part.
class StepListener {
public:
    bool multiplies_inputs = false;  // before_step does, for all units
    virtual void before_step(std::size_t, std::size_t) {}  // forward: these rows of all steps are read next
    // This part's outputs (forward), or slopes (backward), are written; those of all units are read next.
    virtual void after_units() {}

protected:
    ~StepListener() = default;
};

// The kernels of one cell, kind of gates and type. A listener may be null.
struct Recurrence {
    void (*add_biases)(std::size_t hidden, const void* b_ih, const void* b_hh, void* row);
    void (*multiply_input)(const LayerForward&, std::size_t begin, std::size_t end);  // rows of all steps
    void (*forward)(const LayerForward&, const Part&, StepListener* listener);
    void (*backward)(const LayerBackward&, const Part&, StepListener* listener);
    // The gates' arguments of one step, from W_ih x and W_hh h, which include the biases.
    void (*join_products)(std::size_t rows, std::size_t hidden, const void* input, const void* state, void* gates);
    // The gates and the new states of one step. gates: [rows, 4 hidden]. States: [rows, hidden].
    void (*gates)(std::size_t rows, std::size_t hidden, void* gates, const void* h, const void* c, void* new_h,
                  void* new_c, bool keep);
};

// Packs weights W [rows, width] for Product: for the product with states or inputs (a sum over width, depth = width),
// or, transposed, with gradients (a sum over W's rows, depth = rows). Row i of the packed matrix is
// row (i + first_row) % rows of W.
struct Packing {
    std::size_t panel;  // columns
    std::size_t (*panels)(std::size_t columns);
    std::size_t (*size)(std::size_t depth, std::size_t columns);  // elements
    void (*pack)(const void* weights, std::size_t rows, std::size_t width, std::size_t first_row, bool transposed,
                 std::size_t first_panel, std::size_t last_panel, void* packed);
};

// c[rows, columns] = a[rows, depth] b, b packed
struct RowProduct {
    std::size_t depth, columns;
    const void* a;
    std::size_t a_stride;  // elements between rows
    const void* b;
    void* c;
};
// c[rows, columns] += a^T b, and sums[rows] += the sums of a's columns. b [depth, columns] is packed as a transposed
// matrix. sums may be null; without columns there is nothing but the sums.
struct OuterProduct {
    std::size_t depth, columns;
    const void* a;  // [depth, rows]
    std::size_t a_stride;
    const void* b;
    void *c, *sums;
};
// The products of the backward pass that follow the last step. Both are called for rows [first, last) of c.
struct GradientProducts {
    void (*multiply)(const RowProduct&, std::size_t first, std::size_t last);
    void (*add_outer)(const OuterProduct&, std::size_t first, std::size_t last);
};

// The recurrent kernels of one instruction set.
struct RecurrentKernels {
    Recurrence recurrences[cell_count][gates_count][recurrent_types];
    Packing packings[recurrent_types];
    GradientProducts gradient_products[recurrent_types];
};

}  // namespace isrlu
