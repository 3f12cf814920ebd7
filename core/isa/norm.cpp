// The DyISRU kernels of one instruction set. Compiled like activation.cpp, separately, to build in parallel.
#include "isa/instruction_sets.hpp"
#include "norm/norm_loops.hpp"

namespace isrlu {

extern constexpr NormKernels ISRLU_TABLE(_norm) = norm_kernels_of<architecture::ISRLU_SET>();

}  // namespace isrlu
