// Recurrent layers for PyTorch tensors. The caller allocates the results. Tensors come as objects, and their addresses
// do not leave a call.
#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/stl/string_view.h>

#include "isa/dispatch.hpp"
#include "python/names.hpp"
#include "python/packed_weights.hpp"
#include "python/torch_tensor.hpp"
#include "recurrent/block_pool.hpp"
#include "recurrent/run_layer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace isrlu {
namespace {

// Python knows a kind of layer by one small number, which stands for a cell and a kind of gates. The dtype is that of
// the tensors.
int recurrent_kernel(std::string_view cell, std::string_view gates)
{
    return position("cell", cell, cell_names) * gates_count + position("gates", gates, gates_names);
}

nb::dict gate_layout(std::string_view cell)
{
    const GateLayout& layout = layout_of(Cell(position("cell", cell, cell_names)));
    nb::dict fields;
    fields["order"] = layout.order;
    fields["columns"] = layout.columns;
    fields["first_input"] = layout.first_input;
    fields["first_state"] = layout.first_state;
    fields["first_state_block"] = layout.first_state_block;
    return fields;
}

// The tensors of one call: contiguous, of one dtype, float32 or float64.
class Tensors {
public:
    Tensors(int kernel, nb::handle first) : cell_(Cell(kernel / gates_count)), gates_(Gates(kernel % gates_count))
    {
        if (kernel < 0 || kernel >= cell_count * gates_count)
            throw std::out_of_range("no such kind of recurrent layer");
        TensorView view;
        if (!describe(first.ptr(), view)) throw std::invalid_argument("a recurrent kernel takes plain CPU tensors");
        type_ = view.type;
        if (static_cast<int>(type_) >= recurrent_types)
            throw std::invalid_argument("a recurrent kernel takes float32 or float64");
    }

    // The address of a tensor of so many elements. None has none.
    void* data(nb::handle tensor, const char* name, std::size_t elements) const
    {
        if (tensor.is_none()) return nullptr;
        TensorView view;
        if (!describe(tensor.ptr(), view) || view.type != type_ || !is_contiguous(view) || view.size != elements)
            throw std::invalid_argument(std::string(name) + " must be a contiguous tensor of " +
                                        std::to_string(elements) + " elements, of the other tensors' dtype");
        return view.data();
    }

    LayerKind kind() const { return layer_kind(active(), cell_, gates_, type_); }

private:
    Cell cell_;
    Gates gates_;
    Type type_;
};

// Rows of each step of a batch, and their sum.
struct BatchSizes {
    std::vector<std::int64_t> sizes;
    std::size_t rows = 0;
    bool equal = true;

    explicit BatchSizes(nb::handle given)
    {
        for (nb::handle size : given) {
            sizes.push_back(nb::cast<std::int64_t>(size));
            if (sizes.back() < 1 || (sizes.size() > 1 && sizes.back() > *(sizes.end() - 2)))
                throw std::invalid_argument("batch sizes must be positive and never increase");
            rows += static_cast<std::size_t>(sizes.back());
            equal = equal && sizes.back() == sizes.front();
        }
        if (sizes.empty()) throw std::invalid_argument("a sequence needs at least one step");
    }
    Sequence sequence(std::size_t hidden, bool reverse) const
    {
        return {sizes.size(), static_cast<std::size_t>(sizes.front()), hidden, equal ? nullptr : sizes.data(), reverse};
    }
};

std::size_t width_of(nb::handle tensor)
{
    TensorView view;
    if (!describe(tensor.ptr(), view) || view.t.ndim != 2)
        throw std::invalid_argument("a recurrent kernel takes matrices");
    return view.shape(1);
}

// A tensor [rows, columns] of the dtype of `like`, not initialized, in a block of the pool.
nb::object pooled_tensor(nb::handle like, std::size_t rows, std::size_t columns)
{
    static auto* const pool = new BlockPool;  // never destroyed: tensors may outlive everything else
    TensorView view;
    if (!describe(like.ptr(), view) || static_cast<int>(view.type) >= recurrent_types || rows * columns == 0)
        throw std::invalid_argument("pooled tensors are float32 or float64, and not empty");
    auto* const block = new Block(pool->take(rows * columns * type_sizes[static_cast<int>(view.type)]));
    const nb::capsule owner(block, [](void* given) noexcept {
        const std::unique_ptr<Block> back(static_cast<Block*>(given));
        pool->give(std::move(*back));
    });
    const std::size_t shape[] = {rows, columns};
    if (view.type == Type::float64)
        return nb::cast(nb::ndarray<nb::pytorch, double>(block->memory.get(), 2, shape, owner));
    return nb::cast(nb::ndarray<nb::pytorch, float>(block->memory.get(), 2, shape, owner));
}

// weights: (w_ih, w_hh, b_ih or None, b_hh or None), or a PackedParameters in inference; states: (h0 or None, c0 or
// None), last: (h, c or None), kept: (gates, cells or None), or (None, None) in inference.
void recurrent_forward(int kernel, nb::handle batch_sizes, bool reverse, nb::handle x, nb::object weights,
                       nb::tuple states, nb::handle y, nb::tuple last, nb::tuple kept)
{
    const Tensors tensors(kernel, x);
    const LayerKind kind = tensors.kind();
    const BatchSizes sizes(batch_sizes);
    const PackedWeights* packed =
        nb::isinstance<PackedParameters>(weights) ? &nb::inst_ptr<PackedParameters>(weights)->weights() : nullptr;
    const nb::object given = packed ? nb::make_tuple(nb::none(), nb::none(), nb::none(), nb::none()) : weights;
    const std::size_t hidden = packed ? packed->hidden : width_of(given[1]), width = width_of(x);
    if (packed && (packed->kind.kernels != kind.kernels || packed->width != width || !kept[0].is_none()))
        throw std::invalid_argument("these packed weights belong to another kind of layer, or a gradient is wanted");
    const std::size_t columns = kind.layout.columns * hidden;
    const Sequence sequence = sizes.sequence(hidden, reverse);
    const std::size_t state = sequence.batch * hidden, outputs = sizes.rows * hidden;
    const ForwardArrays arrays{sizes.rows,
                               width,
                               tensors.data(x, "x", sizes.rows * width),
                               tensors.data(given[0], "w_ih", columns * width),
                               tensors.data(given[1], "w_hh", columns * hidden),
                               tensors.data(given[2], "b_ih", columns),
                               tensors.data(given[3], "b_hh", columns),
                               tensors.data(states[0], "h0", state),
                               tensors.data(states[1], "c0", state),
                               tensors.data(y, "y", outputs),
                               tensors.data(last[0], "h", state),
                               tensors.data(last[1], "c", state),
                               tensors.data(kept[0], "gates", 4 * outputs),
                               tensors.data(kept[1], "cells", outputs)};
    const nb::gil_scoped_release release;
    if (packed) run_forward(*packed, sequence, arrays);
    else run_forward(kind, sequence, arrays);
}

// kept: (y, gates, cells or None). grads: (grad_y, grad_h, grad_c or None). Those of the states are overwritten with
// the gradients of the initial states.
BackwardArrays backward_arrays(const Tensors& tensors, const Sequence& sequence, std::size_t rows, nb::handle w_hh,
                               const nb::tuple& states, const nb::tuple& kept, const nb::tuple& grads)
{
    const std::size_t hidden = sequence.hidden, state = sequence.batch * hidden, outputs = rows * hidden;
    return {tensors.data(w_hh, "w_hh", tensors.kind().layout.columns * hidden * hidden),
            tensors.data(states[0], "h0", state),
            tensors.data(states[1], "c0", state),
            tensors.data(kept[1], "gates", 4 * outputs),
            tensors.data(kept[0], "y", outputs),
            tensors.data(kept[2], "cells", outputs),
            tensors.data(grads[0], "grad_y", outputs),
            nullptr,
            tensors.data(grads[1], "grad_h", state),
            tensors.data(grads[2], "grad_c", state)};
}

// One step: the slopes. The caller multiplies them with the weights.
void recurrent_step_backward(int kernel, nb::tuple states, nb::tuple kept, nb::tuple grads, nb::handle slopes)
{
    const Tensors tensors(kernel, slopes);
    TensorView y;
    describe(kept[0].ptr(), y);
    const std::size_t rows = y.shape(0), hidden = width_of(kept[0]);
    const Sequence sequence{1, rows, hidden, nullptr, false};
    BackwardArrays arrays = backward_arrays(tensors, sequence, rows, nb::none(), states, kept, grads);
    arrays.slopes = tensors.data(slopes, "slopes", 4 * rows * hidden);
    const LayerKind kind = tensors.kind();
    const nb::gil_scoped_release release;
    run_backward(kind, sequence, arrays);
}

// recurrent_backward and the gradients of data and weights. inputs: (x, w_ih, w_hh). results: (dx, dw_ih, dw_hh, db_ih,
// db_hh), None for what is not wanted.
void recurrent_gradients(int kernel, nb::handle batch_sizes, bool reverse, nb::tuple inputs, nb::tuple states,
                         nb::tuple kept, nb::tuple grads, nb::tuple results)
{
    const Tensors tensors(kernel, inputs[0]);
    const LayerKind kind = tensors.kind();
    const BatchSizes sizes(batch_sizes);
    const std::size_t hidden = width_of(kept[0]), width = width_of(inputs[0]);
    const Sequence sequence = sizes.sequence(hidden, reverse);
    const std::size_t columns = kind.layout.columns * hidden, elements = sizes.rows * width;
    const BackwardArrays arrays = backward_arrays(tensors, sequence, sizes.rows, inputs[2], states, kept, grads);
    const GradientArrays found{sizes.rows,
                               width,
                               tensors.data(inputs[0], "x", elements),
                               tensors.data(inputs[1], "w_ih", columns * width),
                               tensors.data(results[0], "dx", elements),
                               tensors.data(results[1], "dw_ih", columns * width),
                               tensors.data(results[2], "dw_hh", columns * hidden),
                               tensors.data(results[3], "db_ih", columns),
                               tensors.data(results[4], "db_hh", columns)};
    if (!arrays.w_hh || !found.w_ih || !found.db_ih != !found.db_hh)
        throw std::invalid_argument("gradients need both weights, and both biases or none");
    const nb::gil_scoped_release release;
    run_gradients(kind, sequence, arrays, found);
}

// products: W_ih x and W_hh h with their biases. states and results: (h, c or None). gates None: they are not kept.
void recurrent_step(int kernel, nb::tuple products, nb::tuple states, nb::tuple results, nb::handle gates)
{
    const Tensors tensors(kernel, states[0]);
    const LayerKind kind = tensors.kind();
    TensorView h;
    describe(states[0].ptr(), h);
    const std::size_t rows = h.shape(0), hidden = width_of(states[0]), size = rows * hidden;
    const StepArrays arrays{rows,
                            hidden,
                            tensors.data(products[0], "W_ih x", kind.layout.columns * size),
                            tensors.data(products[1], "W_hh h", kind.layout.columns * size),
                            tensors.data(states[0], "h", size),
                            tensors.data(states[1], "c", size),
                            tensors.data(gates, "gates", 4 * size),
                            tensors.data(results[0], "new h", size),
                            tensors.data(results[1], "new c", size)};
    const nb::gil_scoped_release release;
    run_step(kind, arrays);
}

}  // namespace

void add_recurrent_functions(nb::module_& m)
{
    m.def("gate_layout", gate_layout, "cell"_a,
          "The columns of a row of gates [4 hidden]: see core/recurrent/layer.hpp.");
    m.def("recurrent_kernel", recurrent_kernel, "cell"_a, "gates"_a,
          "The number by which the calls below know a kind of recurrent layer.");
    m.def("pooled_tensor", pooled_tensor, "like"_a, "rows"_a, "columns"_a,
          "A matrix of the dtype of `like`, not initialized. Its memory is used again once it is free.");
    m.def("recurrent_forward", recurrent_forward, "kernel"_a, "batch_sizes"_a, "reverse"_a, "x"_a, "weights"_a,
          "states"_a, "y"_a, "last"_a, "kept"_a, "Outputs and last states of a layer in one direction.");
    m.def("recurrent_gradients", recurrent_gradients, "kernel"_a, "batch_sizes"_a, "reverse"_a, "inputs"_a, "states"_a,
          "kept"_a, "grads"_a, "results"_a, "Gradients of data, initial states and weights.");
    m.def("recurrent_step_backward", recurrent_step_backward, "kernel"_a, "states"_a, "kept"_a, "grads"_a, "slopes"_a,
          "Gradients of the gates' arguments, and of the initial states without W_hh's part, for one step.");
    m.def("recurrent_step", recurrent_step, "kernel"_a, "products"_a, "states"_a, "results"_a, "gates"_a.none(),
          "New states from the products of one step's input and state with their weights.");
}

}  // namespace isrlu
