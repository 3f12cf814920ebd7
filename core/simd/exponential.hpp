// exp, expm1, tanh and the sigmoid, by xsimd or by the standard library: what ISRU stands in for. Recurrent layers with
// exact gates and the benchmarks use them.
#pragma once

#include "simd/batch.hpp"

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
