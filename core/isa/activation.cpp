// The activation kernels of one instruction set. CMake compiles this file once per set, with its flags and ISRLU_SET.
#include "activation/fill_table.hpp"
#include "isa/instruction_sets.hpp"
#include "recurrent/layer.hpp"

namespace isrlu {

extern const RecurrentKernels ISRLU_TABLE(_recurrent);
extern constexpr Kernels ISRLU_TABLE(_kernels) = fill_table<architecture::ISRLU_SET>(ISRLU_SET_NAME,
                                                                                     ISRLU_TABLE(_recurrent));

}  // namespace isrlu
