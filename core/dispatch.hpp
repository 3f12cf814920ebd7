// Which instruction sets this CPU has, and which one is in use.
#pragma once

#include <string>
#include <vector>

#include "kernels.hpp"

namespace isrlu {

// The builds that this CPU can run, best last. Never empty: scalar code runs everywhere.
const std::vector<const Kernels*>& available();

// The build called `name`; throws std::invalid_argument, with the names that would do, if there is none or the CPU lacks it.
const Kernels& kernels_named(std::string_view name);

// The build in use: the best one, or the one that the environment variable ISRLU_SIMD names.
const Kernels& active();

std::string names_available();

}  // namespace isrlu
