// The instruction sets that the kernels are compiled for.
//
// To add one: one line here with its xsimd architecture, and one line in CMakeLists.txt with its compiler flags.
// CMake generates instruction_sets.inc: ISRLU_SET(name) for each set of the target processor, slowest first, and
// ISRLU_NAME("name") for the sets of all processors.
#pragma once

#include "simd/batch.hpp"

namespace isrlu {
namespace {

namespace architecture {
using scalar = scalar_isa;
using sse2 = xsimd::sse2;
using avx2 = xsimd::fma3<xsimd::avx2>;
using avx512 = xsimd::avx512bw;
using neon = xsimd::neon64;
}  // namespace architecture

}  // namespace
}  // namespace isrlu

// For core/isa/*.cpp, compiled with -DISRLU_SET=avx2 and so on: ISRLU_TABLE(_kernels) is avx2_kernels, ISRLU_SET_NAME
// is "avx2".
#define ISRLU_JOIN(a, b) a##b
#define ISRLU_EXPAND_JOIN(a, b) ISRLU_JOIN(a, b)
#define ISRLU_TABLE(suffix) ISRLU_EXPAND_JOIN(ISRLU_SET, suffix)
#define ISRLU_QUOTE(name) #name
#define ISRLU_EXPAND_QUOTE(name) ISRLU_QUOTE(name)
#define ISRLU_SET_NAME ISRLU_EXPAND_QUOTE(ISRLU_SET)
