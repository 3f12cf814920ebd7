#include "python/torch_tensor.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using nb::dlpack::dltensor;

namespace isrlu {
namespace {

// DLPack's exchange table, version 1. nanobind has the structs but not this one.
struct ExchangeTable {
    std::uint32_t major, minor;
    ExchangeTable* older;
    void* allocate;
    void* export_managed;
    void* import_managed;
    int (*describe)(void* tensor, dltensor* out);
    void* stream;
};

// What isrlu.torch hands over. The references are kept for the life of the process, as PyTorch's own are.
struct Torch {
    int (*describe)(void*, dltensor*) = nullptr;  // null: nothing was handed over, and no tensor is plain
    PyObject *tensor, *parameter;  // classes
    PyObject *empty_like, *is_neg, *is_grad_enabled, *is_inference_mode_enabled;  // functions
    PyObject *increment_version, *apply;  // functions
    PyObject *dispatch_modes, *tracing_state, *transforms;  // functions: true while somebody watches
    PyObject* forward_ad;  // namespace of torch.autograd.forward_ad
    PyObject *launch_forward, *launch_backward;  // isrlu/torch/_triton.py
    PyObject *launch_norm_forward, *launch_norm_backward;  // isrlu/torch/_triton_norm.py
} torch;

// DLPack's numbers of the device types whose kernels are launched from Python.
std::vector<int> launch_devices;
bool is_launched(const dltensor& t)
{
    return std::find(launch_devices.begin(), launch_devices.end(), t.device.device_type) != launch_devices.end();
}

// Names of attributes and methods, interned.
struct Names {
    PyObject *requires_grad, *is_leaf, *is_view, *is_inference, *current_level, *clone;
    PyObject *version, *new_empty;
} names;

bool find_type(const dltensor& t, Type& type)
{
    using nb::dlpack::dtype_code;
    const auto code = static_cast<dtype_code>(t.dtype.code);
    if (code == dtype_code::Float && t.dtype.bits == 32) type = Type::float32;
    else if (code == dtype_code::Float && t.dtype.bits == 64) type = Type::float64;
    else if (code == dtype_code::Float && t.dtype.bits == 16) type = Type::float16;
    else if (code == dtype_code::Bfloat && t.dtype.bits == 16) type = Type::bfloat16;
    else return false;
    return t.dtype.lanes == 1;
}

std::size_t count_elements(const dltensor& t)
{
    std::size_t n = 1;
    for (int i = 0; i < t.ndim; ++i) n *= static_cast<std::size_t>(t.shape[i]);
    return n;
}

bool is_dense(const TensorView& view)
{
    if (is_contiguous(view)) return true;
    const dltensor& t = view.t;
    std::int64_t covered = 1;  // elements of the dims whose strides follow each other from 1 on, found one by one
    for (int found = 0; found < t.ndim; ++found) {
        int next = 0;
        while (next < t.ndim && (t.shape[next] == 1 || t.strides[next] != covered)) ++next;
        if (next == t.ndim) break;
        covered *= t.shape[next];
    }
    return static_cast<std::size_t>(covered) == view.size;
}

// 1 or 0, or -1 if Python raised. That is no error here: the general path meets it again.
int truth(PyObject* answer)
{
    const int value = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (value < 0) PyErr_Clear();
    return value;
}
int call(PyObject* f) { return truth(PyObject_CallNoArgs(f)); }
int attribute(PyObject* x, PyObject* name) { return truth(PyObject_GetAttr(x, name)); }
int method(PyObject* x, PyObject* name) { return truth(PyObject_CallMethodObjArgs(x, name, nullptr)); }

// False if this PyTorch's exchange table is not one that is known here.
bool connect_torch(const nb::dict& found, nb::object exchange)
{
    const auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
    PyErr_Clear();  // a capsule of another name
    while (table && table->major != 1) table = table->older;
    if (!table || !table->describe) return false;
    const auto take = [&](const char* name) { return nb::object(found[name]).release().ptr(); };
    torch.tensor = take("Tensor");
    torch.parameter = take("Parameter");
    torch.empty_like = take("empty_like");
    torch.is_grad_enabled = take("is_grad_enabled");
    torch.is_inference_mode_enabled = take("is_inference_mode_enabled");
    torch.increment_version = take("increment_version");
    torch.apply = take("apply");
    torch.is_neg = take("is_neg");
    torch.dispatch_modes = take("dispatch_modes");
    torch.tracing_state = take("tracing_state");
    torch.transforms = take("transforms");
    torch.forward_ad = take("forward_ad");
    torch.launch_forward = take("launch_forward");
    torch.launch_backward = take("launch_backward");
    torch.launch_norm_forward = take("launch_norm_forward");
    torch.launch_norm_backward = take("launch_norm_backward");
    const auto intern = PyUnicode_InternFromString;
    names = {intern("requires_grad"),  intern("is_leaf"), intern("_is_view"), intern("is_inference"),
             intern("_current_level"), intern("clone"),   intern("_version"), intern("new_empty")};
    torch.describe = table->describe;
    return true;
}

// are_plain(*tensors): see below. None stands for no tensor.
PyObject* are_plain(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    TensorView first, next;
    if (count == 0 || !describe(args[0], first)) Py_RETURN_FALSE;
    for (Py_ssize_t i = 1; i < count; ++i)
        if (args[i] != Py_None && (!describe(args[i], next) || next.type != first.type)) Py_RETURN_FALSE;
    return PyBool_FromLong(!is_observed() && !is_transformed());
}

}  // namespace

bool is_contiguous(const TensorView& view)
{
    const dltensor& t = view.t;
    std::int64_t n = 1;
    for (int i = t.ndim; i-- > 0; n *= t.shape[i])
        if (t.shape[i] != 1 && t.strides[i] != n) return false;
    return true;
}

bool same_layout(const TensorView& a, const TensorView& b)
{
    if (a.t.ndim != b.t.ndim || a.type != b.type) return false;
    for (int i = 0; i < a.t.ndim; ++i)
        if (a.t.shape[i] != b.t.shape[i] || (a.t.shape[i] != 1 && a.t.strides[i] != b.t.strides[i])) return false;
    return true;
}

bool same_device(const TensorView& a, const TensorView& b)
{
    return a.t.device.device_type == b.t.device.device_type && a.t.device.device_id == b.t.device.device_id;
}

bool describe(PyObject* x, TensorView& view) { return describe_on_device(x, view) && !view.launched; }

bool describe_on_device(PyObject* x, TensorView& view)
{
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(x));
    if (!torch.describe || (type != torch.tensor && type != torch.parameter)) return false;
    if (torch.describe(x, &view.t) != 0) {
        PyErr_Clear();  // a wrapper of a function transform, a sparse tensor, ...
        return false;
    }
    view.launched = is_launched(view.t);
    if (!view.launched && view.t.device.device_type != nb::device::cpu::value) return false;
    if (!view.t.data || !find_type(view.t, view.type)) return false;
    view.size = count_elements(view.t);
    if (view.size == 0) return false;
    view.dense = is_dense(view);
    // PyTorch makes lazily negated tensors of complex ones' parts. Of these only a single element is dense. Its tensors
    // of zeros without memory have no address.
    return (view.dense && view.size > 1) || truth(PyObject_Vectorcall(torch.is_neg, &x, 1, nullptr)) == 0;
}

PyObject* empty_like(PyObject* x, const TensorView& like, TensorView& view)
{
    PyObject* y = PyObject_Vectorcall(torch.empty_like, &x, 1, nullptr);
    if (y && (!describe_on_device(y, view) || !same_layout(like, view))) Py_CLEAR(y);
    return y;
}
PyObject* new_empty(PyObject* x, const std::vector<std::size_t>& shape, TensorView& view)
{
    PyObject* sizes = PyTuple_New(static_cast<Py_ssize_t>(shape.size()));
    for (std::size_t i = 0; sizes && i < shape.size(); ++i)
        PyTuple_SetItem(sizes, static_cast<Py_ssize_t>(i), PyLong_FromSize_t(shape[i]));
    PyObject* y = sizes ? PyObject_CallMethodObjArgs(x, names.new_empty, sizes, nullptr) : nullptr;
    Py_XDECREF(sizes);
    if (y && (!describe(y, view) || !is_contiguous(view))) Py_CLEAR(y);
    return y;
}
PyObject* clone(PyObject* x) { return PyObject_CallMethodObjArgs(x, names.clone, nullptr); }

bool is_observed()
{
    PyObject* level = PyDict_GetItem(torch.forward_ad, names.current_level);
    return !level || PyLong_AsLong(level) >= 0 || call(torch.dispatch_modes) != 0 || call(torch.tracing_state) != 0;
}
bool is_transformed() { return call(torch.transforms) != 0; }
bool is_grad_enabled() { return call(torch.is_grad_enabled) != 0; }
bool requires_grad(PyObject* x) { return attribute(x, names.requires_grad) != 0; }

long long version_of(PyObject* x)
{
    PyObject* version = PyObject_GetAttr(x, names.version);
    const long long count = version ? PyLong_AsLongLong(version) : -1;
    Py_XDECREF(version);
    PyErr_Clear();
    return count;
}

bool may_be_overwritten(PyObject* x, const TensorView& view, bool wants_grad)
{
    if (!view.dense) return false;
    if (wants_grad && ((attribute(x, names.is_leaf) != 0 && requires_grad(x)) || method(x, names.is_view) != 0))
        return false;
    return method(x, names.is_inference) == 0 || call(torch.is_inference_mode_enabled) == 1;
}

bool increment_version(PyObject* x)
{
    if (method(x, names.is_inference) != 0) return true;  // it has no version
    PyObject* done = PyObject_Vectorcall(torch.increment_version, &x, 1, nullptr);
    Py_XDECREF(done);
    return done != nullptr;
}

PyObject* apply_autograd(PyObject* const* args, std::size_t count)
{
    return PyObject_Vectorcall(torch.apply, args, count, nullptr);
}
PyObject* launch_forward(PyObject* const* args, std::size_t count)
{
    return PyObject_Vectorcall(torch.launch_forward, args, count, nullptr);
}
PyObject* launch_backward(PyObject* const* args, std::size_t count)
{
    return PyObject_Vectorcall(torch.launch_backward, args, count, nullptr);
}
PyObject* launch_norm_forward(PyObject* const* args, std::size_t count)
{
    return PyObject_Vectorcall(torch.launch_norm_forward, args, count, nullptr);
}
PyObject* launch_norm_backward(PyObject* const* args, std::size_t count)
{
    return PyObject_Vectorcall(torch.launch_norm_backward, args, count, nullptr);
}

PyObject* none_unless_error() { return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None); }

void add_fast_function(nb::module_& m, const char* name, FastCall f, const char* doc)
{
    static std::deque<PyMethodDef> definitions;  // Python keeps pointers to them
    const auto cast = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
    definitions.push_back({name, cast, METH_FASTCALL, doc});
    m.attr(name) = nb::steal(PyCFunction_NewEx(&definitions.back(), nullptr, m.attr("__name__").ptr()));
}

void add_tensor_functions(nb::module_& m)
{
    m.def("connect_torch", connect_torch,
          "Hand over PyTorch's classes and functions by name, and its DLPack exchange table.");
    m.def(
        "set_launch_devices", [](std::vector<int> types) { launch_devices = std::move(types); }, nb::arg("types"),
        "DLPack's numbers of the device types whose kernels isrlu.torch launches with Triton.");
    add_fast_function(m, "are_plain", are_plain,
                      "are_plain(*tensors): whether all are plain CPU tensors of one dtype, or None, and no tracer or "
                      "transform is active.");
}

}  // namespace isrlu
