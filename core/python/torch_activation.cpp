// f(x) and its gradient for PyTorch tensors. The result None means that no kernel can take the call: the caller uses
// the formula in torch ops.
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <nanobind/stl/string_view.h>

#include "activation/threaded.hpp"
#include "isa/dispatch.hpp"
#include "python/names.hpp"
#include "python/torch_tensor.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace isrlu {
namespace {

// A kernel is known to Python by one small number, which stands for a function and a method. The dtype is the tensor's.
int activation_kernel(std::string_view function, std::string_view method)
{
    return position("function", function, function_names) * method_count + position("method", method, method_names);
}

// An owned reference.
using Owned = nb::object;
Owned owned(PyObject* object) { return nb::steal(object); }

bool is_number(PyObject* alpha) { return PyFloat_Check(alpha) || PyLong_CheckExact(alpha); }

// What to compute: the arguments that both directions share.
struct Call {
    int function, method;
    double alpha = 0;  // if it is a number
    TensorView alphas;  // if it is a tensor
    bool alpha_is_tensor;

    // x is described by `view`. False if no kernel can take this alpha.
    bool parse(PyObject* kernel, PyObject* given_alpha, const TensorView& view)
    {
        const long number = PyLong_Check(kernel) ? PyLong_AsLong(kernel) : -1;
        if (number < 0 || number >= function_count * method_count) return false;
        function = static_cast<int>(number / method_count);
        method = static_cast<int>(number % method_count);
        alpha_is_tensor = !is_number(given_alpha);
        if (alpha_is_tensor) return describe_on_device(given_alpha, alphas) && same_device(alphas, view) && fits(view);
        alpha = PyFloat_AsDouble(given_alpha);
        if (alpha == -1.0) PyErr_Clear();  // an integer beyond all floats, or -1
        return alpha >= 0 && alpha < HUGE_VAL;
    }

    // One alpha, or one per channel, in the type that is computed in.
    bool fits(const TensorView& view) const
    {
        const Type computed = view.type == Type::float64 ? Type::float64 : Type::float32;
        const std::size_t channels = view.t.ndim > 1 ? view.shape(1) : 1;
        return kernel(view.type).activation->has_alpha() && alphas.type == computed && alphas.t.ndim <= 1 &&
               is_contiguous(alphas) && (alphas.size == 1 || alphas.size == channels);
    }

    ActivationKernel kernel(Type type) const
    {
        return {&active().activations[function][static_cast<int>(type)][method], type};
    }

    // Dense data as [outer, channels, inner]. In any order of dims, the stride of dim 1 is the size of what lies inside
    // of it.
    Channels channels(const TensorView& view) const
    {
        if (alphas.size == 1) return {1, 1, view.size, alphas.data()};
        const auto inner = static_cast<std::size_t>(view.t.strides[1]);
        return {view.size / (alphas.size * inner), alphas.size, inner, alphas.data()};
    }
};

bool forward_into(const Call& call, const TensorView& in, const TensorView& out)
{
    return run_kernel(in.size, [&] {
        if (call.alpha_is_tensor) forward(call.kernel(in.type), in.data(), out.data(), call.channels(in));
        else forward(call.kernel(in.type), in.data(), out.data(), in.size, call.alpha);
    });
}

PyObject* activate(PyObject* x, PyObject* kernel, PyObject* alpha, bool inplace);

// x.copy_(f(x.clone())): copy_ knows every rule about tensors that must not be overwritten by others.
PyObject* activate_by_copy(PyObject* x, PyObject* kernel, PyObject* alpha)
{
    const Owned input = owned(clone(x));
    if (!input) return nullptr;
    const Owned y = owned(activate(input.ptr(), kernel, alpha, false));
    if (!y || y.is_none()) return Owned(y).release().ptr();
    return PyObject_CallMethod(x, "copy_", "O", y.ptr());
}

PyObject* activate(PyObject* x, PyObject* kernel, PyObject* alpha, bool inplace)
{
    TensorView in, out;
    Call call;
    if (!describe_on_device(x, in) || !call.parse(kernel, alpha, in) || is_observed()) Py_RETURN_NONE;
    const bool wants_grad = (requires_grad(x) || (call.alpha_is_tensor && requires_grad(alpha))) && is_grad_enabled();
    if (wants_grad && is_transformed()) Py_RETURN_NONE;
    if (inplace && !may_be_overwritten(x, in, wants_grad)) return activate_by_copy(x, kernel, alpha);
    if (!in.dense) {
        const Owned dense = owned(clone(x));
        return dense ? activate(dense.ptr(), kernel, alpha, false) : nullptr;
    }
    out = in;
    const Owned y = inplace ? nb::borrow(x) : owned(empty_like(x, in, out));
    if (!y) return none_unless_error();
    if (in.launched) {
        PyObject* args[] = {x, y.ptr(), kernel, alpha};
        const Owned done = owned(launch_forward(args, 4));
        if (!done.is_valid() || done.ptr() == Py_False) return none_unless_error();
    }
    else if (!forward_into(call, in, out)) return nullptr;
    if (!wants_grad) return inplace && !increment_version(x) ? nullptr : Owned(y).release().ptr();
    // y goes in a tuple: as an argument of its own it would count as an input of the autograd function.
    const Owned made = owned(PyTuple_Pack(1, y.ptr()));
    const Owned how =
        owned(PyTuple_Pack(3, kernel, call.alpha_is_tensor ? Py_None : alpha, inplace ? Py_True : Py_False));
    if (!made || !how) return nullptr;
    PyObject* args[] = {x, made.ptr(), how.ptr(), alpha};
    return apply_autograd(args, call.alpha_is_tensor ? 4 : 3);
}

// activation_forward(x, kernel, alpha, inplace): f(x), with its gradient where that is wanted, or None.
PyObject* activation_forward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    if (count != 4) return PyErr_Format(PyExc_TypeError, "activation_forward takes 4 arguments, got %zd", count);
    return activate(args[0], args[1], args[2], args[3] == Py_True);
}

// A gradient in the layout of `saved`: itself, or a copy, which `holder` keeps.
bool match_layout(PyObject* grad, PyObject* saved, const TensorView& like, TensorView& view, Owned& holder)
{
    if (describe_on_device(grad, view) && same_layout(like, view)) return true;
    holder = owned(empty_like(saved, like, view));
    return holder && owned(PyObject_CallMethod(holder.ptr(), "copy_", "O", grad));
}

// activation_backward(saved, grad, kernel, alpha, from_output, wants_alpha_grad): (grad f', gradient of alpha or None),
// or None if a gradient must be differentiable itself or is no plain tensor. `saved` is x, or f(x) if from_output.
PyObject* activation_backward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    if (count != 6) return PyErr_Format(PyExc_TypeError, "activation_backward takes 6 arguments, got %zd", count);
    PyObject *saved = args[0], *grad = args[1], *alpha = args[3];
    const bool from_output = args[4] == Py_True, wants_alpha_grad = args[5] == Py_True;
    TensorView in, grad_out, grad_in, alpha_grad;
    Call call;
    if (!describe_on_device(saved, in) || !describe_on_device(grad, grad_out) || !call.parse(args[2], alpha, in))
        Py_RETURN_NONE;
    if (is_grad_enabled() || is_observed() || is_transformed()) Py_RETURN_NONE;
    if (!in.dense) {  // a hook on saved tensors made it so
        const Owned dense = owned(clone(saved));
        if (!dense) return nullptr;
        PyObject* again[] = {dense.ptr(), grad, args[2], alpha, args[4], args[5]};
        return activation_backward(nullptr, again, count);
    }
    Owned grad_holder, alpha_result = nb::none();
    if (!match_layout(grad, saved, in, grad_out, grad_holder)) return none_unless_error();
    const Owned result = owned(empty_like(saved, in, grad_in));
    if (!result) return none_unless_error();
    const bool learns = call.alpha_is_tensor && wants_alpha_grad;
    if (in.launched) {
        PyObject* used = grad_holder.is_valid() ? grad_holder.ptr() : grad;
        PyObject* launch[] = {saved, used, result.ptr(), args[2], alpha, args[4], learns ? Py_True : Py_False};
        alpha_result = owned(launch_backward(launch, 7));
        return alpha_result.is_valid() ? PyTuple_Pack(2, result.ptr(), alpha_result.ptr()) : nullptr;
    }
    if (learns) {
        alpha_result = owned(empty_like(alpha, call.alphas, alpha_grad));
        if (!alpha_result) return none_unless_error();
    }
    const bool done = run_kernel(in.size, [&] {
        const ActivationKernel kernel = call.kernel(in.type);
        if (!call.alpha_is_tensor)
            return backward(kernel, from_output, in.data(), grad_out.data(), grad_in.data(), in.size, call.alpha);
        std::vector<double> sums(learns ? call.alphas.size : 0);
        backward(kernel, from_output, in.data(), grad_out.data(), grad_in.data(), call.channels(in),
                 learns ? sums.data() : nullptr);
        for (std::size_t i = 0; i < sums.size(); ++i)
            if (alpha_grad.type == Type::float64) static_cast<double*>(alpha_grad.data())[i] = sums[i];
            else static_cast<float*>(alpha_grad.data())[i] = static_cast<float>(sums[i]);
    });
    return done ? PyTuple_Pack(2, result.ptr(), alpha_result.ptr()) : nullptr;
}

// Names of the autograd context's attributes: ctx.save_for_backward(*tensors) sets to_save, ctx.mark_dirty(*tensors)
// sets dirty_tensors. `call` is ours: (kernel, alpha or None if it is a tensor, inplace).
struct ContextNames {
    PyObject *to_save, *dirty_tensors, *call, *saved_tensors, *needs_input_grad;
};
const ContextNames& names()
{
    const auto intern = PyUnicode_InternFromString;
    static const ContextNames all{intern("to_save"), intern("dirty_tensors"), intern("call"), intern("saved_tensors"),
                                  intern("needs_input_grad")};
    return all;
}

bool set(PyObject* context, PyObject* name, const Owned& value)
{
    return value && PyObject_SetAttr(context, name, value.ptr()) == 0;
}

// save_activation(ctx, x, (y,), call, alpha): Activation.forward of _autograd.py, in C++. alpha only if it is a tensor.
PyObject* save_activation(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    if (count != 4 && count != 5)
        return PyErr_Format(PyExc_TypeError, "save_activation takes 4 or 5 arguments, got %zd", count);
    PyObject *context = args[0], *x = args[1], *call = args[3];
    const bool done =
        set(context, names().to_save, owned(count == 5 ? PyTuple_Pack(2, x, args[4]) : PyTuple_Pack(1, x))) &&
        PyObject_SetAttr(context, names().call, call) == 0 &&
        (PyTuple_GetItem(call, 2) != Py_True || set(context, names().dirty_tensors, owned(PyTuple_Pack(1, x))));
    return done ? Py_XNewRef(PyTuple_GetItem(args[2], 0)) : nullptr;
}

// activation_gradients(ctx, grad): the gradients of the arguments of Activation.apply, or None as activation_backward.
PyObject* activation_gradients(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    if (count != 2) return PyErr_Format(PyExc_TypeError, "activation_gradients takes 2 arguments, got %zd", count);
    const Owned saved = owned(PyObject_GetAttr(args[0], names().saved_tensors));
    const Owned call = saved ? owned(PyObject_GetAttr(args[0], names().call)) : Owned();
    if (!call) return nullptr;
    const bool learned = PyTuple_Size(saved.ptr()) == 2;
    const Owned needed = learned ? owned(PyObject_GetAttr(args[0], names().needs_input_grad)) : nb::none();
    if (!needed) return nullptr;
    const auto item = [](const Owned& tuple, Py_ssize_t i) { return PyTuple_GetItem(tuple.ptr(), i); };
    PyObject* all[] = {item(saved, 0), args[1],
                       item(call, 0),  learned ? item(saved, 1) : item(call, 1),
                       item(call, 2),  learned ? item(needed, 3) : Py_False};
    for (PyObject* each : all)
        if (!each) return nullptr;
    const Owned grads = owned(activation_backward(nullptr, all, 6));
    if (!grads || grads.is_none()) return Owned(grads).release().ptr();
    return learned ? PyTuple_Pack(4, item(grads, 0), Py_None, Py_None, item(grads, 1))
                   : PyTuple_Pack(3, item(grads, 0), Py_None, Py_None);
}

// The method `apply` of the autograd function's nodes: activation_gradients, or by_formula(ctx, grad) of _autograd.py.
// A method of C++ spares each backward pass a call of Python.
PyObject* by_formula = nullptr;
PyObject* apply_node(PyObject* context, PyObject* const* args, Py_ssize_t count)
{
    if (count != 1) return PyErr_Format(PyExc_TypeError, "f(x) has one gradient, got %zd", count);
    PyObject* both[] = {context, args[0]};
    const Owned found = owned(activation_gradients(nullptr, both, 2));
    if (found.is_none()) return PyObject_Vectorcall(by_formula, both, 2, nullptr);
    return Owned(found).release().ptr();
}
nb::object node_method(nb::handle node, nb::object formula)
{
    static PyMethodDef definition{"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(apply_node)),
                                  METH_FASTCALL, "The gradients of the arguments of Activation.apply."};
    by_formula = formula.release().ptr();  // for the life of the process
    return nb::steal(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(node.ptr()), &definition));
}

}  // namespace

void add_activation_functions(nb::module_& m)
{
    m.def("activation_kernel", activation_kernel, "function"_a, "method"_a,
          "The number by which the calls below know a kernel.");
    add_fast_function(
        m, "activation_forward", activation_forward,
        "activation_forward(x, kernel, alpha, inplace): f(x) with its gradient, or None if the formula must do it.");
    add_fast_function(m, "activation_backward", activation_backward,
                      "activation_backward(saved, grad, kernel, alpha, from_output, wants_alpha_grad): the gradients "
                      "of x and alpha, or None.");
    add_fast_function(m, "save_activation", save_activation,
                      "save_activation(ctx, x, (y,), call, alpha): save what the gradient needs, return y.");
    add_fast_function(m, "activation_gradients", activation_gradients,
                      "activation_gradients(ctx, grad): the gradients of save_activation's arguments, or None.");
    m.def("node_method", node_method, "node"_a, "by_formula"_a,
          "The method `apply` for the node class of the autograd function.");
}

}  // namespace isrlu
