// The error of the float32 kernels over every float32, against float64: docs/accuracy.md.
#pragma once

#include <cstdint>
#include <vector>

#include "activation/kernel_table.hpp"
#include "measure/measure_table.hpp"

namespace isrlu {

// An instruction set and a method: one row of the accuracy table.
struct Candidate {
    const Kernels* kernels;
    Method method;
};

struct CandidateError {
    double max_ulps = 0;
    float worst_input = 0;
    std::uint64_t correct = 0;  // number of correctly rounded results
};

// The float32 numbers with bit patterns first to first + count - 1. None is NaN, none has an infinite result.
struct InputRange {
    std::uint32_t first;
    std::uint64_t count;
};

// What is compared: f or f' at one alpha.
struct Quantity {
    Function function;
    bool derivative;
    float alpha;
};

// The error of every candidate over the range. The reference is the float64 kernel, method ieee, of `reference`,
// computed once for all candidates. Its own error is 2^-28 float32 ulp. `measure` compares; it is of the same
// instruction set as `reference`.
std::vector<CandidateError> exhaustive_error(const std::vector<Candidate>& candidates, Quantity quantity,
                                             InputRange range, const Kernels& reference, const MeasureKernels& measure);

}  // namespace isrlu
