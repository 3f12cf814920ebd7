// Python functions for recurrent layers: weights packed, the batch shared out among PyTorch's threads.
#pragma once

#include <nanobind/nanobind.h>

namespace isrlu {

void add_layer_functions(nanobind::module_& m);

}  // namespace isrlu
