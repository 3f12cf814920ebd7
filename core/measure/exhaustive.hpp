// Exhaustive comparison of the float32 kernels with float64, for the accuracy table.
#pragma once

#include <cstdint>
#include <vector>

#include "activation/kernel_table.hpp"
#include "measure/measure_table.hpp"

namespace isrlu {

// One column of the accuracy table.
struct Candidate {
    const Kernels* kernels;
    Method method;
};

struct CandidateError {
    double max_ulps = 0;
    float worst_input = 0;
    std::uint64_t correct = 0;
};

// A range of float32 numbers by their bits: first, first + 1, ..., first + count - 1. None of them may be NaN or have an infinite result.
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

// The error of every candidate over the range. The reference is the float64 kernel of `reference` with IEEE square root and division, computed
// once for all candidates. Its own error is 2^-28 float32 ulps. `measure` compares: it belongs to the same instruction set as `reference`.
std::vector<CandidateError> exhaustive_error(const std::vector<Candidate>& candidates, Quantity quantity,
                                             InputRange range, const Kernels& reference, const MeasureKernels& measure);

}  // namespace isrlu
