// The look-up table of method "table": 2048 values of 1/sqrt, 8 KB in float32, 16 KB in float64.
#pragma once

#include <array>

namespace isrlu {

constexpr int table_bits = 11;  // of the index

template <class T> using RootTable = std::array<T, 1 << table_bits>;
extern const RootTable<float> root_table_float32;
extern const RootTable<double> root_table_float64;

template <class T> const T* root_table();
template <> inline const float* root_table<float>() { return root_table_float32.data(); }
template <> inline const double* root_table<double>() { return root_table_float64.data(); }

}  // namespace isrlu
