#include "python/ufuncs.hpp"

#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

#include "isa/dispatch.hpp"

namespace nb = nanobind;

namespace isrlu {
namespace {

constexpr std::size_t chunk = 512;  // elements that strided data is gathered into

// The loop's data: what to call for one dtype. `lanes` is null for functions without an alpha per element.
struct Loop {
    Map map;
    MapPerElement lanes;
    std::size_t size, compute_size;
};

// Kernels compute lanes that nobody reads (ISRLU's positive side squares to infinity); NumPy must not warn of those.
class KeepFloatStatus {
#if defined(__x86_64__) || defined(_M_X64)
    unsigned saved = _mm_getcsr();

public:
    ~KeepFloatStatus() { _mm_setcsr(saved); }
#else
    std::fenv_t saved;

public:
    KeepFloatStatus() { std::fegetenv(&saved); }
    ~KeepFloatStatus() { std::fesetenv(&saved); }
#endif
};

void copy(char* dst, npy_intp dst_step, const char* src, npy_intp src_step, std::size_t n, std::size_t size)
{
    for (std::size_t i = 0; i < n; ++i)
        std::memcpy(dst + static_cast<npy_intp>(i) * dst_step, src + static_cast<npy_intp>(i) * src_step, size);
}

// A strided operand as a dense one: itself if it is dense, else a chunk's copy.
const char* dense(const char* src, npy_intp step, std::size_t n, std::size_t size, char* buffer)
{
    if (step == static_cast<npy_intp>(size)) return src;
    copy(buffer, static_cast<npy_intp>(size), src, step, n, size);
    return buffer;
}

void run(const Loop& loop, char* src, npy_intp src_step, const char* alpha, npy_intp alpha_step, char* dst,
         npy_intp dst_step, std::size_t n)
{
    const KeepFloatStatus keep;
    const auto size = static_cast<npy_intp>(loop.size);
    if (alpha && alpha_step != 0 && !loop.lanes) {  // alpha is a number, but NumPy may copy it for each element
        for (std::size_t i = 0; i < n; ++i, src += src_step, alpha += alpha_step, dst += dst_step)
            run(loop, src, size, alpha, 0, dst, size, 1);
        return;
    }
    const bool one_alpha = !alpha || alpha_step == 0;
    double a = 1;
    if (alpha && one_alpha)
        a = loop.compute_size == 8 ? *reinterpret_cast<const double*>(alpha) : *reinterpret_cast<const float*>(alpha);
    if (one_alpha && src_step == size && dst_step == size) return loop.map(src, dst, n, a);
    alignas(64) char in[chunk * 8], alphas[chunk * 8], out[chunk * 8];
    for (std::size_t i = 0; i < n; i += chunk) {
        const std::size_t count = n - i < chunk ? n - i : chunk;
        const auto offset = static_cast<npy_intp>(i);
        const char* x = dense(src + offset * src_step, src_step, count, loop.size, in);
        char* y = dst_step == size ? dst + offset * dst_step : out;
        if (one_alpha) loop.map(x, y, count, a);
        else loop.lanes(x, y, count, dense(alpha + offset * alpha_step, alpha_step, count, loop.compute_size, alphas));
        if (y == out) copy(dst + offset * dst_step, dst_step, out, size, count, loop.size);
    }
}

void unary(char** args, const npy_intp* n, const npy_intp* steps, void* loop)
{
    run(*static_cast<const Loop*>(loop), args[0], steps[0], nullptr, 0, args[1], steps[1],
        static_cast<std::size_t>(n[0]));
}
void binary(char** args, const npy_intp* n, const npy_intp* steps, void* loop)
{
    run(*static_cast<const Loop*>(loop), args[0], steps[0], args[1], steps[1], args[2], steps[2],
        static_cast<std::size_t>(n[0]));
}

constexpr int native_types = 3;  // float16, float32, float64 in the order in which NumPy is to try them
constexpr Type types[native_types] = {Type::float16, Type::float32, Type::float64};
constexpr int numpy_types[native_types] = {NPY_HALF, NPY_FLOAT, NPY_DOUBLE};

// What a ufunc refers to for as long as it lives; ufuncs live as long as the process.
struct Backing {
    std::string name;
    bool has_alpha;
    Loop loops[type_count];
    PyUFuncGenericFunction functions[native_types];
    void* data[native_types];
    char signature[native_types * 3];
};
std::deque<Backing> backings;

template <class LoopOf> nb::object make_ufunc(const std::string& name, bool has_alpha, LoopOf loop_of)
{
    Backing& b = backings.emplace_back();
    b.name = name;
    b.has_alpha = has_alpha;
    for (int t = 0; t < type_count; ++t) b.loops[t] = loop_of(Type(t));
    char* s = b.signature;
    for (int i = 0; i < native_types; ++i) {
        b.functions[i] = has_alpha ? binary : unary;
        b.data[i] = &b.loops[static_cast<int>(types[i])];
        *s++ = static_cast<char>(numpy_types[i]);
        if (has_alpha) *s++ = static_cast<char>(types[i] == Type::float64 ? NPY_DOUBLE : NPY_FLOAT);
        *s++ = static_cast<char>(numpy_types[i]);
    }
    PyObject* ufunc = PyUFunc_FromFuncAndData(b.functions, b.data, b.signature, native_types, has_alpha ? 2 : 1, 1,
                                              PyUFunc_None, b.name.c_str(), nullptr, 0);
    if (!ufunc) throw nb::python_error();
    return nb::steal(ufunc);
}

// The Backing of a ufunc made here, through the data pointer that NumPy keeps.
Backing& backing(nb::handle ufunc)
{
    void* const* data = reinterpret_cast<PyUFuncObject*>(ufunc.ptr())->data;
    for (Backing& b : backings)
        if (b.data == data) return b;
    throw std::logic_error("not a ufunc of isrlu");
}

void import_numpy()
{
    if (PyArray_ImportNumPyAPI() < 0 || PyUFunc_ImportUFuncAPI() < 0) throw nb::python_error();
}

}  // namespace

nb::dict make_ufuncs()
{
    import_numpy();
    const Kernels& k = active();
    nb::dict all;
    for (int f = 0; f < function_count; ++f) {
        const bool has_alpha = k.activations[f][0][0].takes_alpha;
        nb::dict values, slopes;
        for (int m = 0; m < method_count; ++m) {
            const nb::str method(method_names[m].data());
            const std::string name(function_names[f]);
            values[method] = make_ufunc(name, has_alpha, [&](Type t) {
                const Activation& a = k.activation(Function(f), t, Method(m));
                return Loop{a.forward, a.forward_per_element, type_sizes[static_cast<int>(t)], compute_size(t)};
            });
            slopes[method] = make_ufunc(name + "_grad", has_alpha, [&](Type t) {
                const Activation& a = k.activation(Function(f), t, Method(m));
                return Loop{a.derivative, a.derivative_per_element, type_sizes[static_cast<int>(t)], compute_size(t)};
            });
        }
        all[nb::str(function_names[f].data())] = values;
        all[nb::str((std::string(function_names[f]) + "_grad").c_str())] = slopes;
    }
    nb::dict roots;
    for (int m = 0; m < method_count; ++m)
        roots[nb::str(method_names[m].data())] = make_ufunc("rsqrt", false, [&](Type t) {
            return Loop{k.rsqrt[static_cast<int>(t)][m], nullptr, type_sizes[static_cast<int>(t)], compute_size(t)};
        });
    all["rsqrt"] = roots;
    return all;
}

void register_bfloat16(nb::handle ufuncs, nb::handle dtype)
{
    import_numpy();
    const int number = reinterpret_cast<PyArray_Descr*>(dtype.ptr())->type_num;
    for (auto [name, methods] : nb::cast<nb::dict>(ufuncs))
        for (auto [method, ufunc] : nb::cast<nb::dict>(methods)) {
            Backing& b = backing(ufunc);
            const int with_alpha[] = {number, NPY_FLOAT, number}, without[] = {number, number};
            if (PyUFunc_RegisterLoopForType(reinterpret_cast<PyUFuncObject*>(ufunc.ptr()), number,
                                            b.has_alpha ? binary : unary, b.has_alpha ? with_alpha : without,
                                            &b.loops[static_cast<int>(Type::bfloat16)]) < 0)
                throw nb::python_error();
        }
}

}  // namespace isrlu
