// The Python module isrlu_lab._measure: benchmarks and the exhaustive error. Arrays come as addresses of dense memory
// that the caller keeps alive.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>

#include "isa/instruction_sets.hpp"
#include "isa/shared_tables.hpp"
#include "measure/clock.hpp"
#include "measure/exhaustive.hpp"
#include "python/names.hpp"
#include "recurrent/run_layer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace isrlu {

#define ISRLU_NAME(name)
#define ISRLU_SET(name) extern const MeasureKernels name##_measure;
#include "instruction_sets.inc"
#undef ISRLU_SET
#undef ISRLU_NAME

namespace {

using Address = std::uintptr_t;
template <class T = void> T* pointer(Address a) { return reinterpret_cast<T*>(a); }

const SharedTables* shared = nullptr;

const Kernels& kernels_of(std::string_view simd)
{
    for (std::size_t i = 0; i < shared->count; ++i)
        if (shared->tables[i]->name == simd) return *shared->tables[i];
    throw std::invalid_argument("instruction set '" + std::string(simd) + "' is not available here");
}

const MeasureKernels& measure_kernels_of(std::string_view simd)
{
    kernels_of(simd);  // the CPU has it
#define ISRLU_NAME(name)
#define ISRLU_SET(name) \
    if (simd == #name) return name##_measure;
#include "instruction_sets.inc"
#undef ISRLU_SET
#undef ISRLU_NAME
    throw std::logic_error("no benchmarks for '" + std::string(simd) + "'");
}

template <class F> double seconds(int loops, F f)
{
    const nb::gil_scoped_release release;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < loops; ++i) f();
    return seconds_since(start);
}

// A function of one instruction set: one of this library's with a method, or a rival.
class TimedKernel {
    Map map = nullptr;
    Backward gradient = nullptr;
    const Rival* rival = nullptr;
    bool backward;

public:
    TimedKernel(std::string_view simd, std::string_view name, std::string_view m, std::string_view t, bool backward)
        : backward(backward)
    {
        const Type type = type_named(t);
        const Method method = method_named(m);
        if (name == "rsqrt" && !backward) {
            map = kernels_of(simd).rsqrt[static_cast<int>(type)][static_cast<int>(method)];
            return;
        }
        for (const Rival& r : measure_kernels_of(simd).rivals)
            if (r.name == name && type == Type::float32 && (backward ? r.backward != nullptr : r.forward != nullptr)) {
                rival = &r;
                return;
            }
        const Activation& a = kernels_of(simd).activation(function_named(name), type, method);
        map = a.forward;
        gradient = a.backward;
    }

    // Seconds for `loops` calls: dst = f(src), or dst = grad_out f'(src).
    double run(Address src, Address grad_out, Address dst, std::size_t n, double alpha, int loops) const
    {
        return seconds(loops, [&] {
            if (rival && backward)
                rival->backward(pointer<float>(src), pointer<float>(grad_out), pointer<float>(dst), n);
            else if (rival) rival->forward(pointer<float>(src), pointer<float>(dst), n);
            else if (backward) gradient(pointer(src), pointer(grad_out), pointer(dst), n, alpha, nullptr);
            else map(pointer(src), pointer(dst), n, alpha);
        });
    }
};

double time_convolution(std::string_view simd, std::string_view filter_name, Address image, Address filter, Address out,
                        std::size_t rows, std::size_t columns, int loops)
{
    for (const Convolution& c : measure_kernels_of(simd).convolutions)
        if (c.name == filter_name) {
            constexpr std::size_t widest = 16;  // lanes of a batch, in AVX-512
            if (rows < c.height || columns + 1 < c.width + widest)
                throw std::invalid_argument("the image is smaller than the filter and a batch");
            return seconds(loops, [&] {
                c.run(pointer<float>(image), pointer<float>(filter), pointer<float>(out), rows, columns);
            });
        }
    throw std::invalid_argument("unknown filter '" + std::string(filter_name) + "': known are 5x5, 3x3, 3x1, 1x3");
}

double time_chain(std::string_view simd, std::string_view name, bool independent, std::size_t steps)
{
    for (const Chain& c : measure_kernels_of(simd).chains)
        if (c.name == name) {
            volatile float sink;
            return seconds(1, [&] { sink = (independent ? c.independent : c.dependent)(steps); });
        }
    throw std::invalid_argument("unknown operation '" + std::string(name) + "': known are rsqrt, fma, exp");
}

double time_gates(std::string_view simd, std::string_view cell, std::string_view gates, std::size_t rows,
                  std::size_t hidden, Address arguments, Address h, Address c, Address new_h, Address new_c, int loops)
{
    const Recurrence& kernels = *layer_kind(kernels_of(simd), Cell(position("cell", cell, cell_names)),
                                            Gates(position("gates", gates, gates_names)), Type::float32)
                                     .kernels;
    return seconds(loops, [&] {
        kernels.gates(rows, hidden, pointer(arguments), pointer(h), pointer(c), pointer(new_h), pointer(new_c), false);
    });
}

std::vector<std::tuple<double, float, std::uint64_t>> errors_of(
    const std::vector<std::pair<std::string, std::string>>& candidates, std::string_view function, bool derivative,
    float alpha, std::uint32_t first, std::uint64_t count)
{
    std::vector<Candidate> parsed;
    for (const auto& [simd, method] : candidates) parsed.push_back({&kernels_of(simd), method_named(method)});
    const Quantity quantity{function_named(function), derivative, alpha};
    const Kernels& reference = *shared->tables[shared->count - 1];
    std::vector<CandidateError> errors;
    {
        const nb::gil_scoped_release release;
        errors = exhaustive_error(parsed, quantity, {first, count}, reference, measure_kernels_of(reference.name));
    }
    std::vector<std::tuple<double, float, std::uint64_t>> result;
    for (const CandidateError& error : errors) result.emplace_back(error.max_ulps, error.worst_input, error.correct);
    return result;
}

}  // namespace
}  // namespace isrlu

NB_MODULE(_measure, m)
{
    using namespace isrlu;
    const nb::object capsule = nb::module_::import_("isrlu._core").attr("kernel_tables");
    shared = static_cast<const SharedTables*>(PyCapsule_GetPointer(capsule.ptr(), shared_tables_name));
    if (!shared) throw nb::python_error();
    if (shared->table_bytes != sizeof(Kernels))
        throw nb::import_error("isrlu._core and isrlu_lab._measure are of different builds: install isrlu again");

    m.def("clock", measure_clock, "Cycles per second of this CPU now, or 0 if that cannot be told here.");
    nb::class_<TimedKernel>(m, "TimedKernel", "A kernel or a rival of one instruction set.")
        .def(nb::init<std::string_view, std::string_view, std::string_view, std::string_view, bool>(), "simd"_a,
             "name"_a, "method"_a = "full", "dtype"_a = "float32", "backward"_a = false)
        .def("run", &TimedKernel::run, "src"_a, "grad_out"_a, "dst"_a, "n"_a, "alpha"_a = 1.0, "loops"_a = 1,
             "Seconds for `loops` calls.");
    m.def("time_convolution", time_convolution, "simd"_a, "filter"_a, "image"_a, "weights"_a, "out"_a, "rows"_a,
          "columns"_a, "loops"_a = 1,
          "Seconds for `loops` direct convolutions of a float32 image [rows, columns], unpadded, with a filter '5x5', "
          "'3x3', '3x1' or '1x3'.");
    m.attr("independent_chains") = independent_chains;
    m.def("time_chain", time_chain, "simd"_a, "name"_a, "independent"_a, "steps"_a,
          "Seconds for `steps` operations 'rsqrt', 'fma' or 'exp' on a batch of float32, each on the result before; "
          "independent: for as many in each of `independent_chains` chains.");
    m.def("time_gates", time_gates, "simd"_a, "cell"_a, "gates"_a, "rows"_a, "hidden"_a, "arguments"_a, "h"_a, "c"_a,
          "new_h"_a, "new_c"_a, "loops"_a, "Seconds for `loops` calls of the gates' float32 kernel alone.");
    m.def("exhaustive_error", errors_of, "candidates"_a, "function"_a, "derivative"_a, "alpha"_a, "first"_a, "count"_a,
          "(max ulps, input where it occurs, number correctly rounded) of each (simd, method) over consecutive float32 "
          "bit patterns.");
}
