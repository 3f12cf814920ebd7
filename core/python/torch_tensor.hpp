// PyTorch tensors without PyTorch's headers. Every question about a tensor that decides whether a kernel may take it is
// answered here.
//
// Since 2.10 PyTorch's tensor class carries DLPack's exchange table. One of its C functions writes a tensor's address,
// dtype, shape and strides into a struct. The other questions are calls of Python objects that isrlu.torch hands over
// once (isrlu/torch/_private.py). Asking them here takes some 200 ns. Asking them in Python takes as long as a ReLU of
// 16 elements.
#pragma once

#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "activation/kernel_table.hpp"

namespace isrlu {

// A tensor of a type that the kernels know. Valid as long as the tensor object that it was made from.
struct TensorView {
    nanobind::dlpack::dltensor t;
    Type type;
    bool launched;  // its kernels are launched from Python (isrlu/torch/_triton.py): it is on a GPU
    std::size_t size;  // elements
    bool dense;  // the elements fill one block of memory, in any order of dims

    void* data() const { return static_cast<char*>(t.data) + t.byte_offset; }
    std::size_t shape(int dim) const { return static_cast<std::size_t>(t.shape[dim]); }
};

bool is_contiguous(const TensorView& view);
bool same_layout(const TensorView& a, const TensorView& b);  // dtype, shape and strides

// False for everything but a plain CPU tensor with elements: other classes and devices, wrappers of function
// transforms, lazy negations.
bool describe(PyObject* x, TensorView& view);
bool describe_on_device(PyObject* x, TensorView& view);  // the same for a tensor on the CPU or on a GPU
bool same_device(const TensorView& a, const TensorView& b);

// A new tensor of x's layout, which `view` describes. Null if PyTorch makes something else of it, perhaps without a
// Python error.
PyObject* empty_like(PyObject* x, const TensorView& like, TensorView& view);
PyObject* clone(PyObject* x);  // dense
// A new contiguous tensor of x's dtype. Null as above.
PyObject* new_empty(PyObject* x, const std::vector<std::size_t>& shape, TensorView& view);

// Whether a dispatch mode, a tracer or a forward-mode level wants to see the formula.
bool is_observed();
bool is_transformed();  // by torch.func
bool is_grad_enabled();
bool requires_grad(PyObject* x);
long long version_of(PyObject* x);  // PyTorch's count of x's in-place changes; -1 for an inference tensor

// Whether a kernel may write into x, of which autograd wants a gradient or not.
bool may_be_overwritten(PyObject* x, const TensorView& view, bool wants_grad);
bool increment_version(PyObject* x);  // false with a Python error

// The autograd function's apply(x, (y,), call), with alpha as one more argument if it is a tensor.
PyObject* apply_autograd(PyObject* const* args, std::size_t count);

// forward(x, y, kernel, alpha) of isrlu/torch/_triton.py: False if it can't. A new reference.
PyObject* launch_forward(PyObject* const* args, std::size_t count);
// backward(saved, grad, out, kernel, alpha, from_output, wants_alpha): the gradient of alpha, or None.
PyObject* launch_backward(PyObject* const* args, std::size_t count);
// The same of DyISRU (isrlu/torch/_triton_norm.py): forward(x, y, weight, bias, alpha, shift), and
// backward(x, grad, out, weight, bias, alpha, shift): the gradients of the four parameters.
PyObject* launch_norm_forward(PyObject* const* args, std::size_t count);
PyObject* launch_norm_backward(PyObject* const* args, std::size_t count);

// A new reference to None, or null if a Python error is set.
PyObject* none_unless_error();

// Calls f, without the GIL where the work outweighs the cost of releasing it. False with a Python error if f throws.
template <class F> bool run_kernel(std::size_t elements, F f)
{
    constexpr std::size_t worth_releasing = 4096;  // elements
    try {
        if (elements < worth_releasing) f();
        else {
            const nanobind::gil_scoped_release release;
            f();
        }
        return true;
    }
    catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        return false;
    }
}

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
// A function that Python calls without a tuple of arguments and without nanobind's conversions, which take longer than
// a small kernel.
void add_fast_function(nanobind::module_& m, const char* name, FastCall f, const char* doc);

void add_tensor_functions(nanobind::module_& m);
void add_activation_functions(nanobind::module_& m);
void add_norm_functions(nanobind::module_& m);
void add_recurrent_functions(nanobind::module_& m);
void add_packed_weights(nanobind::module_& m);

}  // namespace isrlu
