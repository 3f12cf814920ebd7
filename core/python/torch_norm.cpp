// DyISRU and its gradients for PyTorch tensors. The result None means that no kernel can take the call: the caller
// checks the arguments and uses the formula in torch ops.
#include <cmath>
#include <vector>

#include "isa/dispatch.hpp"
#include "norm/norm_layer.hpp"
#include "python/torch_tensor.hpp"

namespace nb = nanobind;

namespace isrlu {
namespace {

using Owned = nb::object;
Owned owned(PyObject* object) { return nb::steal(object); }

const NormKernels& active_norm_kernels()
{
    static const NormKernels& chosen = norm_kernels(active().name);
    return chosen;
}

// The single value of a tensor.
double value_of(const TensorView& view)
{
    if (view.type == Type::float64) return *static_cast<const double*>(view.data());
    if (view.type == Type::float32) return static_cast<double>(*static_cast<const float*>(view.data()));
    float value;
    active_norm_kernels().types[static_cast<int>(view.type)].widen(view.data(), &value, 1);
    return static_cast<double>(value);
}

// weight, bias, alpha or shift.
struct Parameter {
    PyObject* object;
    TensorView view;
    bool is_tensor = false;

    explicit Parameter(PyObject* given) : object(given) {}

    // A parameter of x's dtype, or of float32 for 16-bit x.
    bool describe_for(const TensorView& x)
    {
        is_tensor = describe_on_device(object, view) && same_device(view, x);
        return is_tensor && (view.type == x.type || (view.type == Type::float32 && x.type != Type::float64));
    }
    // None, or a contiguous tensor of the shape of x's last dims.
    bool is_scale(const TensorView& x)
    {
        if (object == Py_None) return true;
        if (!describe_for(x) || view.t.ndim < 1 || view.t.ndim > x.t.ndim || !is_contiguous(view)) return false;
        for (int i = 1; i <= view.t.ndim; ++i)
            if (view.t.shape[view.t.ndim - i] != x.t.shape[x.t.ndim - i]) return false;
        return true;
    }
    // A finite number, or a tensor with one value.
    bool is_number(const TensorView& x, double& value)
    {
        if (PyFloat_CheckExact(object)) return std::isfinite(value = PyFloat_AsDouble(object));
        if (!describe_for(x) || view.size != 1) return false;
        if (!view.launched) value = value_of(view);  // on a GPU the kernel reads it
        return true;
    }
    NormParameter data() const { return {is_tensor ? view.data() : nullptr, is_tensor ? view.type : Type::float32}; }
    bool learns() const { return is_tensor && requires_grad(object); }
};

struct Call {
    Parameter weight, bias, alpha, shift;
    double alpha_value = 0, shift_value = 0;

    explicit Call(PyObject* const* args) : weight(args[0]), bias(args[1]), alpha(args[2]), shift(args[3]) {}

    // False if no kernel can take these parameters for the x that `view` describes.
    bool fits(const TensorView& x)
    {
        return weight.is_scale(x) && bias.is_scale(x) &&
               (!weight.is_tensor || !bias.is_tensor || weight.view.t.ndim == bias.view.t.ndim) &&
               alpha.is_number(x, alpha_value) && shift.is_number(x, shift_value);
    }
    bool learns() const { return weight.learns() || bias.learns() || alpha.learns() || shift.learns(); }
    NormLayer layer(const TensorView& x) const
    {
        const std::size_t channels = weight.is_tensor ? weight.view.size : bias.is_tensor ? bias.view.size : 1;
        return {active_norm_kernels(), x.type,      x.size / channels, channels,
                weight.data(),         bias.data(), alpha_value,       shift_value};
    }
};

// x itself if it is contiguous, else a contiguous copy, which `view` then describes. Null if PyTorch makes something
// else of it, perhaps without a Python error.
Owned contiguous(PyObject* x, TensorView& view)
{
    if (is_contiguous(view)) return nb::borrow(x);
    Owned copy = owned(PyObject_CallMethod(x, "contiguous", nullptr));
    return copy && describe_on_device(copy.ptr(), view) && is_contiguous(view) ? copy : Owned();
}

// norm_forward(x, weight, bias, alpha, shift): y; (y,) if a gradient is wanted; or None.
PyObject* norm_forward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    if (count != 5) return PyErr_Format(PyExc_TypeError, "norm_forward takes 5 arguments, got %zd", count);
    TensorView in, out;
    Call call(args + 1);
    if (!describe_on_device(args[0], in) || !call.fits(in) || is_observed()) Py_RETURN_NONE;
    const bool wants_grad = is_grad_enabled() && (requires_grad(args[0]) || call.learns());
    if (wants_grad && is_transformed()) Py_RETURN_NONE;
    const Owned x = contiguous(args[0], in);
    if (!x) return none_unless_error();
    Owned y = owned(empty_like(x.ptr(), in, out));
    if (!y) return none_unless_error();
    if (in.launched) {
        PyObject* launch[] = {x.ptr(), y.ptr(), args[1], args[2], args[3], args[4]};
        const Owned done = owned(launch_norm_forward(launch, 6));
        if (!done || done.ptr() == Py_False) return none_unless_error();
        return wants_grad ? PyTuple_Pack(1, y.ptr()) : y.release().ptr();
    }
    const NormLayer layer = call.layer(in);
    if (!run_kernel(in.size, [&] { isrlu::norm_forward(layer, in.data(), out.data()); })) return nullptr;
    return wants_grad ? PyTuple_Pack(1, y.ptr()) : y.release().ptr();
}

// A new tensor like `parameter` with these values, or None if it is no tensor. Null on failure.
Owned gradient_of(const Parameter& parameter, const double* values)
{
    if (!parameter.is_tensor) return nb::none();
    TensorView view;
    Owned made = owned(empty_like(parameter.object, parameter.view, view));
    if (made) active_norm_kernels().types[static_cast<int>(view.type)].narrow(values, view.data(), view.size);
    return made;
}

// norm_backward(x, grad, weight, bias, alpha, shift): the gradients of x, weight, bias, alpha and shift, or None if a
// gradient must be differentiable itself or is no plain tensor.
PyObject* norm_backward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    if (count != 6) return PyErr_Format(PyExc_TypeError, "norm_backward takes 6 arguments, got %zd", count);
    TensorView in, grad_out, grad_in;
    Call call(args + 2);
    if (!describe_on_device(args[0], in) || !describe_on_device(args[1], grad_out) || grad_out.type != in.type)
        Py_RETURN_NONE;
    if (!call.fits(in) || is_grad_enabled() || is_observed() || is_transformed()) Py_RETURN_NONE;
    const Owned x = contiguous(args[0], in), grad = contiguous(args[1], grad_out);
    if (!x || !grad) return none_unless_error();
    const Owned result = owned(empty_like(x.ptr(), in, grad_in));
    if (!result) return none_unless_error();
    if (in.launched) {
        PyObject* launch[] = {x.ptr(), grad.ptr(), result.ptr(), args[2], args[3], args[4], args[5]};
        const Owned others = owned(launch_norm_backward(launch, 7));  // a tuple of four
        const Owned first = owned(PyTuple_Pack(1, result.ptr()));
        return others && first ? PySequence_Concat(first.ptr(), others.ptr()) : nullptr;
    }
    const NormLayer layer = call.layer(in);
    std::vector<double> weight(layer.channels), bias(layer.channels);
    NormGradients gradients{weight.data(), bias.data(), 0, 0};
    if (!run_kernel(in.size,
                    [&] { isrlu::norm_backward(layer, in.data(), grad_out.data(), grad_in.data(), gradients); }))
        return nullptr;
    const Owned of_weight = gradient_of(call.weight, weight.data()), of_bias = gradient_of(call.bias, bias.data()),
                of_alpha = gradient_of(call.alpha, &gradients.alpha),
                of_shift = gradient_of(call.shift, &gradients.shift);
    if (!of_weight || !of_bias || !of_alpha || !of_shift) return none_unless_error();
    return PyTuple_Pack(5, result.ptr(), of_weight.ptr(), of_bias.ptr(), of_alpha.ptr(), of_shift.ptr());
}

}  // namespace

void add_norm_functions(nb::module_& m)
{
    add_fast_function(m, "norm_forward", norm_forward,
                      "norm_forward(x, weight, bias, alpha, shift): y, or (y,) if a gradient is wanted, or None if the "
                      "formula must do it.");
    add_fast_function(m, "norm_backward", norm_backward,
                      "norm_backward(x, grad, weight, bias, alpha, shift): the five gradients, or None.");
}

}  // namespace isrlu
