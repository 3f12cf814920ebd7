// The kernel tables of isrlu._core, passed to isrlu_lab._measure in a capsule: the benchmarks time the same machine
// code that users run.
#pragma once

#include "activation/kernel_table.hpp"

namespace isrlu {

constexpr const char* shared_tables_name = "isrlu.kernel_tables";

struct SharedTables {
    std::size_t table_bytes;  // sizeof(Kernels): a different number means a different build
    const Kernels* const* tables;  // of this CPU's instruction sets, fastest last
    std::size_t count;
};

}  // namespace isrlu
