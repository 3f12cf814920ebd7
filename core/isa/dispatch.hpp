// The instruction sets of this CPU, and the one in use.
#pragma once

#include <string>
#include <vector>

#include "activation/kernel_table.hpp"

namespace isrlu {

// The kernel tables that this CPU can run, fastest last. Never empty: scalar code runs on every CPU.
const std::vector<const Kernels*>& available();

// The table of instruction set `name`. Throws std::invalid_argument with the accepted names if the name is unknown or
// the CPU does not have it.
const Kernels& kernels_named(std::string_view name);

// The table in use: the one named by the environment variable ISRLU_SIMD, else the fastest. Throws like kernels_named.
const Kernels& active();

std::string names_available();  // "scalar, sse2, avx2"

}  // namespace isrlu
