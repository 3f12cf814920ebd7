// How far float32 results are from a float64 reference, in ulps of the reference's float32 neighbourhood.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace isrlu {
namespace {

// The distance of the float32 numbers around `reference`: 2^(exponent - 23), at least the subnormals' 2^-149.
inline double ulp32(double reference)
{
    const std::uint64_t exponent = to_bits(reference) & 0x7ff0000000000000u;
    const double power = from_bits<double>(exponent);
    return (power < 0x1p-126 ? 0x1p-126 : power) * 0x1p-23;
}

inline void audit(const float* results, const double* reference, std::size_t n, Audit& total)
{
    double worst = 0;
    std::uint64_t correct = 0;
    for (std::size_t i = 0; i < n; ++i) {  // branch-free, so that the compiler vectorises it
        const double error = std::fabs(static_cast<double>(results[i]) - reference[i]) / ulp32(reference[i]);
        worst = error > worst ? error : worst;
        correct += results[i] == static_cast<float>(reference[i]);
    }
    total.correct += correct;
    if (!(worst > total.max_ulps)) return;
    total.max_ulps = worst;
    for (total.worst = 0; total.worst < n; ++total.worst)
        if (std::fabs(static_cast<double>(results[total.worst]) - reference[total.worst]) / ulp32(reference[total.worst]) == worst) break;
}

}  // namespace
}  // namespace isrlu
