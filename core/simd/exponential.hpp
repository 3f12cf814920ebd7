// exp, expm1, tanh and sigmoid: xsimd's for batches, the standard library's for plain numbers. Used by recurrent layers
// with gates="exact" and by the benchmarks.
#pragma once

#include "simd/batch.hpp"

#if defined(ISRLU_PORTABLE) && defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver exp, exp@GLIBC_2.2.5");  // the same result; exp@GLIBC_2.29 only leaves out the old error handling
#endif

namespace isrlu {
namespace {

inline float exp(float x) { return std::exp(x); }
inline float expm1(float x) { return std::expm1(x); }
inline float tanh(float x) { return std::tanh(x); }
inline double exp(double x) { return std::exp(x); }
inline double tanh(double x) { return std::tanh(x); }

template <class V> V exact_tanh(V x) { return tanh(x); }
template <class V> V exact_sigmoid(V x) { return divide(constant<V>(1), constant<V>(1) + exp(-x)); }

}  // namespace
}  // namespace isrlu
