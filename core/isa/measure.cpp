// The benchmarks' kernels of one instruction set. Compiled like activation.cpp. Part of isrlu_lab._measure alone.
#include "isa/instruction_sets.hpp"
#include "measure/fill_table.hpp"

namespace isrlu {

extern constexpr MeasureKernels ISRLU_TABLE(_measure) = fill_measure_table<architecture::ISRLU_SET>();

}  // namespace isrlu
