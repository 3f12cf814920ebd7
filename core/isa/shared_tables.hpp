// The kernels of isrlu._core, handed to the laboratory's module in a capsule: it measures the very code that users run.
#pragma once

#include "activation/kernel_table.hpp"

namespace isrlu {

constexpr const char* shared_tables_name = "isrlu.kernel_tables";

struct SharedTables {
    std::size_t table_bytes;  // sizeof(Kernels), to notice modules of different builds
    const Kernels* const* tables;  // those that this CPU can run, fastest last
    std::size_t count;
};

}  // namespace isrlu
