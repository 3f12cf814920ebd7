// What the benchmarks compare with, for one instruction set. CMake compiles this file once per set, with its flags and ISRLU_SET.
#include "isa/instruction_sets.hpp"
#include "measure/fill_table.hpp"

namespace isrlu {

extern constexpr MeasureKernels ISRLU_TABLE(_measure) = fill_measure_table<architecture::ISRLU_SET>(ISRLU_SET_NAME);

}  // namespace isrlu
