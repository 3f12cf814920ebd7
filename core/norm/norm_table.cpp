#include "norm/norm_table.hpp"

#include <stdexcept>
#include <string>

namespace isrlu {

#define ISRLU_NAME(name)
#define ISRLU_SET(name) extern const NormKernels name##_norm;
#include "instruction_sets.inc"
#undef ISRLU_SET

const NormKernels& norm_kernels(std::string_view instruction_set)
{
#define ISRLU_SET(name) \
    if (instruction_set == #name) return name##_norm;
#include "instruction_sets.inc"
#undef ISRLU_SET
#undef ISRLU_NAME
    throw std::invalid_argument("no kernels for instruction set '" + std::string(instruction_set) + "'");
}

}  // namespace isrlu
