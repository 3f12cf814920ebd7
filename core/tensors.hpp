// PyTorch tensors without PyTorch's headers.
#pragma once

#include <nanobind/nanobind.h>

namespace isrlu {

// Adds `connect_torch`, `fast_forward`, `plain_forward`, `fast_backward` and `plain` to the module.
void add_tensor_functions(nanobind::module_& m);

}  // namespace isrlu
