// The recurrent kernels of one instruction set. CMake compiles this file once per set, with its flags and ISRLU_SET.
#include "isa/instruction_sets.hpp"
#include "recurrent/sequence.hpp"

namespace isrlu {

extern constexpr RecurrentKernels ISRLU_TABLE(_recurrent) = recurrent_kernels<architecture::ISRLU_SET>();

}  // namespace isrlu
