// The recurrent kernels of one instruction set. Compiled like activation.cpp, separately, to build in parallel.
#include "isa/instruction_sets.hpp"
#include "recurrent/sequence.hpp"

namespace isrlu {

extern constexpr RecurrentKernels ISRLU_TABLE(_recurrent) = recurrent_kernels<architecture::ISRLU_SET>();

}  // namespace isrlu
