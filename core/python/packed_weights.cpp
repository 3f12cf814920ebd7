#include "python/packed_weights.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "isa/dispatch.hpp"
#include "python/torch_tensor.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace isrlu {

PackedParameters::PackedParameters(int kernel, nb::dict parameters, nb::tuple names)
    : cell_(Cell(kernel / gates_count)),
      type_(Type::float32),
      weights_(pack(kernel, parameters, names))
{}

PackedWeights PackedParameters::pack(int kernel, nb::dict parameters, nb::tuple names)
{
    if (kernel < 0 || kernel >= cell_count * gates_count || (names.size() != 2 && names.size() != 4))
        throw std::invalid_argument("no such kind of recurrent layer");
    std::size_t rows = 0, shapes[2] = {};
    for (nb::handle name : names) {
        Source& source = sources_[count_];
        source.name = nb::borrow(name);
        source.tensor = nb::borrow(PyDict_GetItem(parameters.ptr(), name.ptr()));
        TensorView& view = source.view;
        if (source.tensor.is_valid() && describe(source.tensor.ptr(), view))
            source.alias = source.tensor.attr("detach")();
        if (!source.alias.is_valid() || !describe(source.alias.ptr(), view) || !is_contiguous(view) ||
            static_cast<int>(view.type) >= recurrent_types || (count_ && view.type != type_))
            throw std::invalid_argument(nb::str("{} can't be packed: it must be a contiguous parameter on the CPU, "
                                                "float32 or float64, without a parametrization")
                                            .format(name)
                                            .c_str());
        source.version = version_of(source.tensor.ptr());
        if (source.version < 0)
            throw std::invalid_argument(
                nb::str("{} can't be packed: PyTorch does not count the changes of an inference tensor. Make or load "
                        "the module outside of torch.inference_mode()")
                    .format(name)
                    .c_str());
        type_ = view.type;
        const bool matrix = count_ < 2;
        if (view.t.ndim != (matrix ? 2 : 1) || (rows && view.shape(0) != rows))
            throw std::invalid_argument(nb::str("{} has the wrong shape").format(name).c_str());
        rows = view.shape(0);
        if (matrix) shapes[count_] = view.shape(1);
        ++count_;
    }
    const LayerKind kind = layer_kind(active(), cell_, Gates(kernel % gates_count), type_);
    if (rows != kind.layout.columns * shapes[1]) throw std::invalid_argument("weights of the wrong shape");
    const auto data = [&](std::size_t i) { return i < count_ ? sources_[i].view.data() : nullptr; };
    return {kind, shapes[1], shapes[0], data(0), data(1), data(2), data(3)};
}

bool PackedParameters::is_current(PyObject* parameters) const
{
    TensorView view;
    for (std::size_t i = 0; i < count_; ++i) {
        const Source& source = sources_[i];
        PyObject* tensor = PyDict_GetItem(parameters, source.name.ptr());
        if (tensor != source.tensor.ptr() || !describe(tensor, view) || view.data() != source.view.data() ||
            !same_layout(view, source.view) || version_of(tensor) != source.version)
            return false;
    }
    return true;
}

bool PackedParameters::wants_grad() const
{
    for (std::size_t i = 0; i < count_; ++i)
        if (requires_grad(sources_[i].tensor.ptr())) return true;
    return false;
}

namespace {

// One call of a module of one layer in one direction: its tensors, checked.
class Call {
public:
    // x: [steps, batch, width], [batch, steps, width] if batch_first, or [steps, width]. hx: None, h or (h, c).
    bool read(const PackedParameters& packed, PyObject* x, PyObject* hx, bool batch_first)
    {
        const PackedWeights& weights = packed.weights();
        TensorView input;
        if (!describe(x, input) || input.type != packed.type() || !is_contiguous(input)) return false;
        const int dims = input.t.ndim;
        if (dims < 2 || dims > 3 || input.shape(dims - 1) != weights.width) return false;
        steps_ = input.shape(0);
        batch_ = dims == 2 ? 1 : input.shape(1);
        if (batch_first && dims == 3) {
            std::swap(steps_, batch_);
            if (steps_ > 1 && batch_ > 1) return false;  // the rows are not in the order of the steps
        }
        x_ = x;
        arrays_.x = input.data();
        arrays_.width = weights.width;
        arrays_.rows = steps_ * batch_;
        for (int i = 0; i + 1 < dims; ++i) y_shape_.push_back(input.shape(i));
        y_shape_.push_back(weights.hidden);
        if (dims == 3) state_shape_ = {1, batch_, weights.hidden};
        else state_shape_ = {1, weights.hidden};
        return read_states(packed, hx);
    }

    bool wants_grad() const
    {
        return requires_grad(x_) || (states_[0] && requires_grad(states_[0])) ||
               (states_[1] && requires_grad(states_[1]));
    }

    // (y, (h, c)) or (y, h). Null where PyTorch made something unexpected, perhaps without a Python error.
    PyObject* run(const PackedParameters& packed)
    {
        const PackedWeights& weights = packed.weights();
        const bool lstm = packed.cell() == Cell::lstm;
        nb::object y = make(y_shape_, arrays_.y), h = make(state_shape_, arrays_.h), c;
        if (lstm) c = make(state_shape_, arrays_.c);
        if (!y.is_valid() || !h.is_valid() || (lstm && !c.is_valid())) return nullptr;
        const Sequence sequence{steps_, batch_, weights.hidden, nullptr, false};
        const std::size_t work = arrays_.rows * weights.hidden * 4;
        if (!run_kernel(work, [&] { run_forward(weights, sequence, arrays_); })) return nullptr;
        return nb::make_tuple(y, lstm ? nb::object(nb::make_tuple(h, c)) : h).release().ptr();
    }

private:
    bool read_states(const PackedParameters& packed, PyObject* hx)
    {
        if (hx == Py_None) return true;
        const void** const data[] = {&arrays_.h0, &arrays_.c0};
        const Py_ssize_t count = packed.cell() == Cell::lstm ? 2 : 1;
        if (count == 2 && (!PyTuple_Check(hx) || PyTuple_Size(hx) != 2)) return false;
        for (Py_ssize_t i = 0; i < count; ++i) {
            states_[i] = count == 2 ? PyTuple_GetItem(hx, i) : hx;
            TensorView& view = views_[i];
            if (!describe(states_[i], view) || view.type != packed.type() || !is_contiguous(view)) return false;
            if (static_cast<std::size_t>(view.t.ndim) != state_shape_.size()) return false;
            for (std::size_t k = 0; k < state_shape_.size(); ++k)
                if (view.shape(static_cast<int>(k)) != state_shape_[k]) return false;
            *data[i] = view.data();
        }
        return true;
    }

    // A result. empty_like of a state takes half of new_empty's time.
    nb::object make(const std::vector<std::size_t>& shape, void*& data)
    {
        TensorView view;
        PyObject* made =
            states_[0] && shape == state_shape_ ? empty_like(states_[0], views_[0], view) : new_empty(x_, shape, view);
        if (made) data = view.data();
        return nb::steal(made);
    }

    std::size_t steps_ = 0, batch_ = 0;
    PyObject *x_ = nullptr, *states_[2] = {};
    TensorView views_[2];
    std::vector<std::size_t> y_shape_, state_shape_;
    ForwardArrays arrays_{};
};

// packed_forward(packed, parameters, x, hx, batch_first): see below.
PyObject* packed_forward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    if (count != 5 || !nb::isinstance<PackedParameters>(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "packed_forward takes packed weights, parameters, x, hx, batch_first");
        return nullptr;
    }
    const PackedParameters& packed = *nb::inst_ptr<PackedParameters>(args[0]);
    Call call;
    if (!packed.is_current(args[1]) || !call.read(packed, args[2], args[3], args[4] == Py_True) || is_observed() ||
        is_transformed() || (is_grad_enabled() && (packed.wants_grad() || call.wants_grad())))
        return none_unless_error();
    PyObject* result = call.run(packed);
    return result ? result : none_unless_error();
}

}  // namespace

void add_packed_weights(nb::module_& m)
{
    nb::class_<PackedParameters>(m, "PackedWeights",
                                 "The weights of a recurrent layer in one direction, packed for the kernels.")
        .def(nb::init<int, nb::dict, nb::tuple>(), "kernel"_a, "parameters"_a, "names"_a)
        .def(
            "is_current", [](const PackedParameters& p, nb::dict parameters) { return p.is_current(parameters.ptr()); },
            "parameters"_a, "Whether the dictionary still has the parameters that were packed, unchanged.");
    add_fast_function(m, "packed_forward", packed_forward,
                      "packed_forward(packed, parameters, x, hx, batch_first): a layer's outputs and last states. None "
                      "if the weights have changed, a gradient is wanted or the tensors are not plain.");
}

}  // namespace isrlu
