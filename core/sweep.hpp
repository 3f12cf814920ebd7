// Exhaustive comparison of the float32 kernels with float64, for the accuracy table.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.hpp"

namespace isrlu {

// One column of the accuracy table: a build and a method.
struct Candidate {
    const Kernels* kernels;
    Method method;
};

struct Finding {
    double max_ulps = 0;
    float worst_input = 0;
    std::uint64_t correct = 0;
};

// Runs every candidate on the float32 numbers whose bits are first, first + 1, ..., first + count - 1, none of them NaN, and none with an infinite result. The reference is the
// float64 kernel with IEEE root and division, computed once for all candidates; its own error is 2^-28 float32 ulps.
std::vector<Finding> sweep(const std::vector<Candidate>& candidates, Function f, bool derivative, float alpha, std::uint32_t first, std::uint64_t count);

}  // namespace isrlu
