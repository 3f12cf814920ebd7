// The Python module isrlu._core. Arrays come as addresses of dense memory: the callers (isrlu.torch, the benchmarks) own and check them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "clock.hpp"
#include "dispatch.hpp"
#include "drive.hpp"
#include "layers.hpp"
#include "sweep.hpp"
#include "tensors.hpp"
#include "ufuncs.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace isrlu;

namespace {

using Address = std::uintptr_t;

template <class T = void> T* pointer(Address a) { return reinterpret_cast<T*>(a); }

template <class E, std::size_t N> E parse(const char* what, std::string_view word, const std::string_view (&names)[N])
{
    const auto found = std::find(std::begin(names), std::end(names), word);
    if (found != std::end(names)) return E(found - names);
    std::string known;
    for (const auto name : names) known += (known.empty() ? "" : ", ") + std::string(name);
    throw std::invalid_argument("unknown " + std::string(what) + " '" + std::string(word) + "': known are " + known);
}

Function function(std::string_view word) { return parse<Function>("function", word, function_names); }
Type type(std::string_view word) { return parse<Type>("dtype", word, type_names); }
Method method(std::string_view word) { return parse<Method>("method", word, method_names); }

// A kernel of the build in use as one small number, which is quick to pass from Python.
int kernel(std::string_view f, std::string_view t, std::string_view m)
{
    return (static_cast<int>(function(f)) * type_count + static_cast<int>(type(t))) * method_count + static_cast<int>(method(m));
}
Bound bound(int kernel)
{
    static const Kernels& k = active();
    if (kernel < 0 || kernel >= function_count * type_count * method_count) throw std::out_of_range("no such kernel");
    const int t = kernel / method_count % type_count;
    return {&k.activations[kernel / method_count / type_count][t][kernel % method_count], Type(t)};
}

// Calls f without the GIL where the work outweighs the cost of letting it go.
template <class F> void released(std::size_t n, F f)
{
    if (n < 4096) return f();
    const nb::gil_scoped_release release;
    f();
}

// A contender of the benchmarks, bound to one build: a function of this project with a method, or one of `contenders`.
class Job {
    Map map = nullptr;
    Backward gradient = nullptr;
    const Contender* contender = nullptr;
    bool backward;

public:
    Job(std::string_view simd, std::string_view name, std::string_view m, std::string_view t, bool backward) : backward(backward)
    {
        const Kernels& k = kernels_named(simd);
        if (name == "rsqrt" && !backward) {
            map = k.rsqrt[static_cast<int>(type(t))][static_cast<int>(method(m))];
            return;
        }
        for (const Contender& c : k.contenders)
            if (c.name == name && type(t) == Type::float32 && (backward ? c.backward != nullptr : c.forward != nullptr)) {
                contender = &c;
                return;
            }
        const Activation& a = k.activation(function(name), type(t), method(m));
        map = a.forward;
        gradient = a.backward;
    }

    // Seconds for `loops` calls: dst = f(src), or dst = grad_out f'(src).
    double run(Address src, Address grad_out, Address dst, std::size_t n, double alpha, int loops) const
    {
        const nb::gil_scoped_release release;
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < loops; ++i) {
            if (contender && backward) contender->backward(pointer<float>(src), pointer<float>(grad_out), pointer<float>(dst), n);
            else if (contender) contender->forward(pointer<float>(src), pointer<float>(dst), n);
            else if (backward) gradient(pointer(src), pointer(grad_out), pointer(dst), n, alpha, nullptr);
            else map(pointer(src), pointer(dst), n, alpha);
        }
        return seconds_since(start);
    }
};

// Seconds for `loops` convolutions of a rows x columns image.
double convolve(std::string_view simd, std::string_view filter_name, Address image, Address filter, Address out, std::size_t rows, std::size_t columns, int loops)
{
    for (const Convolution& c : kernels_named(simd).convolutions)
        if (c.name == filter_name) {
            constexpr std::size_t widest = 16;  // lanes of a batch, in AVX-512
            if (rows < c.height || columns + 1 < c.width + widest) throw std::invalid_argument("the image is smaller than the filter and a batch");
            const nb::gil_scoped_release release;
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < loops; ++i) c.run(pointer<float>(image), pointer<float>(filter), pointer<float>(out), rows, columns);
            return seconds_since(start);
        }
    throw std::invalid_argument("unknown filter '" + std::string(filter_name) + "': known are 5x5, 3x3, 3x1, 1x3");
}

std::vector<std::tuple<double, float, std::uint64_t>> sweep_findings(
    const std::vector<std::pair<std::string, std::string>>& candidates, std::string_view f, bool derivative, float alpha, std::uint32_t first, std::uint64_t count)
{
    std::vector<Candidate> parsed;
    for (const auto& [simd, m] : candidates) parsed.push_back({&kernels_named(simd), method(m)});
    std::vector<Finding> findings;
    {
        const nb::gil_scoped_release release;
        findings = sweep(parsed, function(f), derivative, alpha, first, count);
    }
    std::vector<std::tuple<double, float, std::uint64_t>> result;
    for (const Finding& found : findings) result.emplace_back(found.max_ulps, found.worst_input, found.correct);
    return result;
}

}  // namespace

NB_MODULE(_core, m)
{
    try {
        active();
    }
    catch (const std::invalid_argument& error) {
        throw nb::import_error(error.what());
    }

    m.def("simd", [] { return std::string(active().name); }, "The instruction set in use, as in 'avx2'.");
    m.def("simd_available", [] {
        std::vector<std::string> names;
        for (const Kernels* k : available()) names.emplace_back(k->name);
        return names;
    }, "The instruction sets that this build and this CPU have, best last.");
    m.def("clock", measure_clock, "Cycles per second of this CPU now, or 0 if that cannot be told here.");

    m.def("kernel", kernel, "function"_a, "dtype"_a, "method"_a, "The number by which the calls below know a kernel.");
    m.def("forward", [](int k, Address src, Address dst, std::size_t n, double alpha) {
        released(n, [&] { forward(bound(k), pointer(src), pointer(dst), n, alpha); });
    }, "kernel"_a, "src"_a, "dst"_a, "n"_a, "alpha"_a, "dst = f(src); dst may be src.");
    m.def("backward", [](int k, Address saved, Address grad_out, Address grad_in, std::size_t n, double alpha, bool from_output) {
        released(n, [&] { backward(bound(k), from_output, pointer(saved), pointer(grad_out), pointer(grad_in), n, alpha); });
    }, "kernel"_a, "saved"_a, "grad_out"_a, "grad_in"_a, "n"_a, "alpha"_a, "from_output"_a,
       "grad_in = grad_out * f', from the saved input, or from the saved output.");
    m.def("forward_channels", [](int k, Address src, Address dst, std::size_t outer, std::size_t channels, std::size_t inner, Address alphas) {
        const Channels shape{outer, channels, inner, pointer(alphas)};
        released(shape.size(), [&] { forward(bound(k), pointer(src), pointer(dst), shape); });
    }, "kernel"_a, "src"_a, "dst"_a, "outer"_a, "channels"_a, "inner"_a, "alphas"_a,
       "dst = f(src) on [outer, channels, inner], one alpha per channel: float64 for float64 data, else float32.");
    m.def("backward_channels", [](int k, Address saved, Address grad_out, Address grad_in, std::size_t outer, std::size_t channels, std::size_t inner,
                                  Address alphas, bool from_output, Address alpha_grad) {
        const Channels shape{outer, channels, inner, pointer(alphas)};
        released(shape.size(), [&] {
            backward(bound(k), from_output, pointer(saved), pointer(grad_out), pointer(grad_in), shape, pointer<double>(alpha_grad));
        });
    }, "kernel"_a, "saved"_a, "grad_out"_a, "grad_in"_a, "outer"_a, "channels"_a, "inner"_a, "alphas"_a, "from_output"_a, "alpha_grad"_a,
       "grad_in = grad_out * f' on [outer, channels, inner]; alpha_grad: float64[channels], or 0 if it is not wanted.");
    m.def("set_parallel_for", [](Address f) { set_parallel_for(reinterpret_cast<ParallelFor>(f)); }, "address"_a,
          "Hand over libtorch's torch_parallel_for, or 0 for one thread.");

    add_tensor_functions(m);
    add_layer_functions(m);

    m.def("ufuncs", make_ufuncs, "Make NumPy ufuncs of all functions: {name: {method: ufunc}}.");
    m.def("register_bfloat16", register_bfloat16, "ufuncs"_a, "dtype"_a, "Add loops for ml_dtypes' bfloat16 to these ufuncs.");

    nb::class_<Job>(m, "Job", "A kernel or a contender of one instruction set, for benchmarks.")
        .def(nb::init<std::string_view, std::string_view, std::string_view, std::string_view, bool>(),
             "simd"_a, "name"_a, "method"_a = "full", "dtype"_a = "float32", "backward"_a = false)
        .def("run", &Job::run, "src"_a, "grad_out"_a, "dst"_a, "n"_a, "alpha"_a = 1.0, "loops"_a = 1, "Seconds for `loops` calls.");
    m.def("convolve", convolve, "simd"_a, "filter"_a, "image"_a, "weights"_a, "out"_a, "rows"_a, "columns"_a, "loops"_a = 1,
          "Seconds for `loops` direct convolutions of a float32 image [rows, columns], unpadded, with a filter '5x5', '3x3', '3x1' or '1x3'.");
    m.def("sweep", sweep_findings, "candidates"_a, "function"_a, "derivative"_a, "alpha"_a, "first"_a, "count"_a,
          "(max ulps, input where it occurs, number correctly rounded) of each (simd, method) over consecutive float32 bit patterns.");
}
