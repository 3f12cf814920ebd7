// PyTorch tensors without PyTorch's headers.
#pragma once

#include <nanobind/nanobind.h>

namespace isrlu {

// Adds `connect_torch`, `fast_forward`, `plain_forward` and `fast_backward` to the module.
void add_tensor_functions(nanobind::module_& m);

}  // namespace isrlu
