// NumPy ufuncs over the kernels.
#pragma once

#include <nanobind/nanobind.h>

namespace isrlu {

// {name: {method: ufunc}} for every function, derivative and rsqrt.
nanobind::dict make_ufuncs();

// Adds loops for ml_dtypes' bfloat16, a NumPy dtype that exists only once that package is imported.
void register_bfloat16(nanobind::handle ufuncs, nanobind::handle dtype);

}  // namespace isrlu
