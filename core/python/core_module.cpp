// The Python module isrlu._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "activation/threaded.hpp"
#include "isa/dispatch.hpp"
#include "isa/shared_tables.hpp"
#include "python/torch_tensor.hpp"
#include "python/ufuncs.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace isrlu;

NB_MODULE(_core, m)
{
    try {
        active();
    }
    catch (const std::invalid_argument& error) {
        throw nb::import_error(error.what());
    }

    m.def("simd", [] { return std::string(active().name); }, "The instruction set in use, as in 'avx2'.");
    m.def(
        "simd_available",
        [] {
            std::vector<std::string> names;
            for (const Kernels* k : available()) names.emplace_back(k->name);
            return names;
        },
        "The instruction sets that this build and this CPU have, best last.");
    static const SharedTables tables{sizeof(Kernels), available().data(), available().size()};
    m.attr("kernel_tables") = nb::capsule(&tables, shared_tables_name);

    m.def(
        "set_parallel_for", [](std::uintptr_t f) { set_parallel_for(reinterpret_cast<ParallelFor>(f)); }, "address"_a,
        "Hand over libtorch's torch_parallel_for, or 0 for one thread.");
    add_tensor_functions(m);
    add_activation_functions(m);
    add_norm_functions(m);
    add_recurrent_functions(m);

    m.def("ufuncs", make_ufuncs, "Make NumPy ufuncs of all functions: {name: {method: ufunc}}.");
    m.def("register_bfloat16", register_bfloat16, "ufuncs"_a, "dtype"_a,
          "Add loops for ml_dtypes' bfloat16 to these ufuncs.");
}
