// f(x) for a PyTorch tensor in one call from Python: all questions that must be asked of the tensor are asked here, in some 200 ns,
// where asking them from Python takes as long as a small ReLU.
//
// PyTorch's headers are not needed: since 2.10 its tensor class carries a table of C functions (DLPack's exchange API), of which one writes
// a tensor's address, dtype, shape and strides into a struct. The rest are calls of Python objects that isrlu.torch hands over once.
#include "tensors.hpp"

#include <cmath>
#include <stdexcept>

#include "dispatch.hpp"
#include "drive.hpp"

namespace nb = nanobind;

namespace isrlu {
namespace {

// The part of dlpack.h that is used here (version 1).
struct DLTensor {
    void* data;
    std::int32_t device_type, device_id;
    std::int32_t ndim;
    std::uint8_t code, bits;
    std::uint16_t lanes;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;
};
struct ExchangeTable {
    std::uint32_t major, minor;
    ExchangeTable* older;
    void* allocate;
    void* export_managed;
    void* import_managed;
    int (*describe)(void* tensor, DLTensor* out);
    void* stream;
};
constexpr std::int32_t cpu = 1;
constexpr std::uint8_t code_float = 2, code_bfloat = 4;

// What isrlu.torch hands over. The references are kept for the life of the process, as PyTorch's own are.
struct Torch {
    PyObject *tensor, *parameter;  // classes
    PyObject *empty_like, *is_grad_enabled, *dispatch_modes, *tracing_state, *transforms;  // functions
    PyObject* with_gradient;  // with_gradient(x, function, alpha, method, inplace): the autograd function
    PyObject* forward_ad;  // namespace of torch.autograd.forward_ad
    PyObject *requires_grad, *is_leaf, *is_view, *current_level;  // interned names
    int (*describe)(void*, DLTensor*);
} torch;

bool type_of(const DLTensor& t, Type& type)
{
    if (t.code == code_float && t.bits == 32) type = Type::float32;
    else if (t.code == code_float && t.bits == 64) type = Type::float64;
    else if (t.code == code_float && t.bits == 16) type = Type::float16;
    else if (t.code == code_bfloat && t.bits == 16) type = Type::bfloat16;
    else return false;
    return t.lanes == 1;
}

bool contiguous(const DLTensor& t)
{
    std::int64_t n = 1;
    for (int i = t.ndim; i-- > 0; n *= t.shape[i])
        if (t.shape[i] != 1 && t.strides[i] != n) return false;
    return true;
}

// Number of elements if they fill a stretch of memory, in whatever order of dims; 0 if they do not.
std::size_t dense_size(const DLTensor& t)
{
    std::int64_t n = 1;
    for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
    if (n == 0 || contiguous(t)) return static_cast<std::size_t>(n);
    std::int64_t covered = 1;  // the dims whose strides follow each other from 1 on, found one by one
    for (int found = 0; found < t.ndim; ++found) {
        int next = 0;
        while (next < t.ndim && (t.shape[next] == 1 || t.strides[next] != covered)) ++next;
        if (next == t.ndim) break;
        covered *= t.shape[next];
    }
    return covered == n ? static_cast<std::size_t>(n) : 0;
}

bool same_layout(const DLTensor& a, const DLTensor& b)
{
    for (int i = 0; i < a.ndim; ++i)
        if (a.shape[i] != b.shape[i] || (a.shape[i] != 1 && a.strides[i] != b.strides[i])) return false;
    return a.ndim == b.ndim && a.code == b.code && a.bits == b.bits && b.device_type == cpu;
}

// A tensor whose elements the kernels can take as they lie in memory.
struct Dense {
    DLTensor t;
    Type type;
    std::size_t n;
    void* data() const { return static_cast<char*>(t.data) + t.byte_offset; }
};

bool look(PyObject* x, Dense& d)
{
    PyObject* kind = reinterpret_cast<PyObject*>(Py_TYPE(x));
    if ((kind != torch.tensor && kind != torch.parameter) || !torch.describe) return false;
    if (torch.describe(x, &d.t) != 0) {
        PyErr_Clear();  // a wrapper of a function transform, a sparse tensor, ...
        return false;
    }
    d.n = d.t.device_type == cpu && type_of(d.t, d.type) ? dense_size(d.t) : 0;
    return d.n > 0 && d.t.data;
}

// A new tensor of x's layout; null, perhaps without an error, if PyTorch makes something else of it.
PyObject* make_like(PyObject* x, const Dense& like, Dense& made)
{
    PyObject* y = PyObject_Vectorcall(torch.empty_like, &x, 1, nullptr);
    if (y && (!look(y, made) || !same_layout(like.t, made.t))) Py_CLEAR(y);
    return y;
}

// Whether f() is true; -1 if it fails, which is no error here: the general way will meet it again.
int ask(PyObject* f)
{
    PyObject* answer = PyObject_CallNoArgs(f);
    const int truth = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    PyErr_Clear();
    return truth;
}

// Whether some dispatch mode, tracer or forward-mode level wants to see the formula.
bool observed()
{
    PyObject* level = PyDict_GetItem(torch.forward_ad, torch.current_level);
    return !level || PyLong_AsLong(level) >= 0 || ask(torch.dispatch_modes) != 0 || ask(torch.tracing_state) != 0;
}

// The same for an attribute.
int ask(PyObject* x, PyObject* attribute)
{
    PyObject* answer = PyObject_GetAttr(x, attribute);
    const int truth = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    PyErr_Clear();
    return truth;
}

// Whether x may be overwritten by an autograd function: not a leaf, nor a view of another tensor, for which PyTorch has more rules.
bool may_be_overwritten(PyObject* x)
{
    if (ask(x, torch.is_leaf) != 0) return false;
    PyObject* answer = PyObject_CallMethodObjArgs(x, torch.is_view, nullptr);
    Py_XDECREF(answer);
    PyErr_Clear();
    return answer == Py_False;
}

// The arguments that say what to compute: function, alpha, method.
struct How {
    int function, method;
    double alpha;

    bool parse(PyObject* const* args)
    {
        function = index_of(args[0], function_names, function_count);
        alpha = PyFloat_Check(args[1]) || PyLong_CheckExact(args[1]) ? PyFloat_AsDouble(args[1]) : -1.0;
        method = index_of(args[2], method_names, method_count);
        if (alpha == -1.0) PyErr_Clear();
        return function >= 0 && method >= 0 && alpha >= 0 && alpha < HUGE_VAL;
    }
    static int index_of(PyObject* word, const std::string_view* names, int count)
    {
        Py_ssize_t length;
        const char* text = PyUnicode_Check(word) ? PyUnicode_AsUTF8AndSize(word, &length) : nullptr;
        if (!text) return PyErr_Clear(), -1;
        for (int i = 0; i < count; ++i)
            if (names[i] == std::string_view(text, static_cast<std::size_t>(length))) return i;
        return -1;
    }
    Bound kernel(Type type) const { return {&active().activations[function][static_cast<int>(type)][method], type}; }
};

// Runs f, without the GIL where the work outweighs the cost of letting it go, and returns the tensor y that it fills.
template <class F> PyObject* filled(PyObject* y, std::size_t n, F f)
{
    try {
        if (n < 4096) f();
        else {
            const nb::gil_scoped_release release;
            f();
        }
    }
    catch (const std::exception& error) {
        Py_CLEAR(y);
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return y;
}

PyObject* none_unless_error() { return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None); }

PyObject* compute(PyObject* x, const Dense& in, const How& how, bool inplace)
{
    Dense out = in;
    PyObject* y = inplace ? Py_NewRef(x) : make_like(x, in, out);
    if (!y) return none_unless_error();
    return filled(y, in.n, [&] { forward(how.kernel(in.type), in.data(), out.data(), in.n, how.alpha); });
}

// fast_forward(x, function, alpha, method, inplace): f(x), with its gradient where that is wanted. None for everything that needs more thought.
// A single element does, too: alone among dense tensors it may be a lazily negated one that PyTorch made by itself.
PyObject* fast_forward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    How how;
    Dense in;
    if (count != 5 || !look(args[0], in) || in.n < 2 || !how.parse(args + 1) || observed()) Py_RETURN_NONE;
    const int required = ask(args[0], torch.requires_grad), wanted = required == 1 ? ask(torch.is_grad_enabled) : required;
    if (wanted == 0 && args[4] == Py_False) return compute(args[0], in, how, false);
    if (wanted == 1 && ask(torch.transforms) == 0 && (args[4] == Py_False || (args[4] == Py_True && may_be_overwritten(args[0]))))
        return PyObject_Vectorcall(torch.with_gradient, args, 5, nullptr);
    Py_RETURN_NONE;
}

// plain_forward(x, function, alpha, method, inplace): f(x), for the autograd function, which has asked all questions.
PyObject* plain_forward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    How how;
    Dense in;
    if (count != 5 || !look(args[0], in) || !how.parse(args + 1)) Py_RETURN_NONE;
    return compute(args[0], in, how, args[4] == Py_True);
}

// fast_backward(saved, grad, function, alpha, method, from_output): grad f'; None where grad is not as plain as saved or must be differentiable.
PyObject* fast_backward(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    How how;
    Dense saved, grad, made;
    if (count != 6 || !look(args[0], saved) || !look(args[1], grad) || !same_layout(saved.t, grad.t) || !how.parse(args + 2)) Py_RETURN_NONE;
    if (grad.n < 2 || ask(torch.is_grad_enabled) != 0 || observed()) Py_RETURN_NONE;
    PyObject* grad_in = make_like(args[0], saved, made);
    if (!grad_in) return none_unless_error();
    return filled(grad_in, saved.n, [&] {
        backward(how.kernel(saved.type), args[5] == Py_True, saved.data(), grad.data(), made.data(), saved.n, how.alpha);
    });
}

// plain(*tensors): whether all are contiguous float32 or float64 tensors of one dtype on the CPU, and nobody watches. None stands for no tensor.
PyObject* plain(PyObject*, PyObject* const* args, Py_ssize_t count)
{
    Dense first, next;
    if (count == 0 || !look(args[0], first) || (first.type != Type::float32 && first.type != Type::float64)) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (args[i] == Py_None) continue;
        if (!look(args[i], next) || next.type != first.type || next.n < 2 || !contiguous(next.t)) Py_RETURN_FALSE;
    }
    return PyBool_FromLong(!observed() && ask(torch.transforms) == 0);
}

void connect_torch(nb::object tensor, nb::object parameter, nb::object empty_like, nb::object is_grad_enabled, nb::object dispatch_modes,
                   nb::object tracing_state, nb::object transforms, nb::object with_gradient, nb::dict forward_ad, nb::object exchange)
{
    const auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
    if (!table) throw nb::python_error();
    while (table && table->major != 1) table = table->older;
    if (!table || !table->describe) throw std::runtime_error("this PyTorch's DLPack exchange table has no version 1");
    torch = {tensor.release().ptr(), parameter.release().ptr(), empty_like.release().ptr(), is_grad_enabled.release().ptr(),
             dispatch_modes.release().ptr(), tracing_state.release().ptr(), transforms.release().ptr(), with_gradient.release().ptr(), forward_ad.release().ptr(),
             PyUnicode_InternFromString("requires_grad"), PyUnicode_InternFromString("is_leaf"), PyUnicode_InternFromString("_is_view"),
             PyUnicode_InternFromString("_current_level"), table->describe};
}

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
PyMethodDef define(const char* name, Fast f, const char* doc)
{
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL, doc};
}

}  // namespace

void add_tensor_functions(nb::module_& m)
{
    m.def("connect_torch", connect_torch, "Hand over PyTorch's classes and functions, once.");
    // Not by nanobind: converting each argument takes time.
    static PyMethodDef definitions[] = {
        define("fast_forward", fast_forward, "fast_forward(x, function, alpha, method, inplace): f(x) for a plain CPU tensor, else None."),
        define("plain_forward", plain_forward, "plain_forward(x, function, alpha, method, inplace): f(x) without asking who watches."),
        define("plain", plain, "plain(*tensors): whether all are contiguous CPU tensors of one dtype, float32 or float64, that nobody watches."),
        define("fast_backward", fast_backward, "fast_backward(saved, grad, function, alpha, method, from_output): grad f', or None."),
    };
    for (PyMethodDef& definition : definitions) m.attr(definition.ml_name) = nb::steal(PyCFunction_New(&definition, nullptr));
}

}  // namespace isrlu
