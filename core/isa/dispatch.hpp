// Which instruction sets this CPU has, and which one is in use.
#pragma once

#include <string>
#include <vector>

#include "activation/kernel_table.hpp"

namespace isrlu {

// The tables that this CPU can run, fastest last. Never empty: scalar code runs everywhere.
const std::vector<const Kernels*>& available();

// The table called `name`. Throws std::invalid_argument, with the accepted names, if there is none or the CPU lacks it.
const Kernels& kernels_named(std::string_view name);

// The table in use: the fastest one, or the one that the environment variable ISRLU_SIMD names.
const Kernels& active();

std::string names_available();

}  // namespace isrlu
