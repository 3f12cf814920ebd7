// The activation kernels of one instruction set. CMake compiles this file once per set, with that set's compiler flags
// and -DISRLU_SET=<name>.
#include "activation/fill_table.hpp"
#include "isa/instruction_sets.hpp"
#include "recurrent/layer.hpp"

namespace isrlu {

extern const RecurrentKernels ISRLU_TABLE(_recurrent);
extern constexpr Kernels ISRLU_TABLE(_kernels) = fill_table<architecture::ISRLU_SET>(ISRLU_SET_NAME,
                                                                                     ISRLU_TABLE(_recurrent));

}  // namespace isrlu
