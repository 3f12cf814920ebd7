// The table that each instruction set fills for the benchmarks and for the exhaustive error. It is no part of isrlu._core.
#pragma once

#include <cstddef>
#include <string_view>

namespace isrlu {

// A function that a user would take instead of ISRLU or ISRU. Null where it has no such kernel.
struct Rival {
    std::string_view name;
    void (*forward)(const float* src, float* dst, std::size_t n);
    void (*backward)(const float* saved, const float* grad_out, float* grad_in, std::size_t n);  // from the input
};
constexpr int rival_count = 7;

// Float32 results are compared with a float64 reference.
struct Reference {
    const double* exact;
    const double* ulps_per_unit;  // 1 / the distance of the float32 numbers around `exact`
    const float* nearest;  // `exact`, rounded
};
struct Error {
    double max_ulps = 0;
    std::size_t worst = 0;  // index of the first element with max_ulps
    std::size_t correct = 0;  // how many are correctly rounded
};

// out = image * filter without padding, for the paper's table 1: see convolution.hpp.
struct Convolution {
    std::string_view name;  // "5x5": height x width of the filter
    std::size_t height, width;
    void (*run)(const float* image, const float* filter, float* out, std::size_t rows, std::size_t columns);
};
constexpr int convolution_count = 4;

struct MeasureKernels {
    std::string_view name;
    Rival rivals[rival_count];
    Convolution convolutions[convolution_count];
    void (*add_error)(const float* results, const Reference& reference, std::size_t n, Error& total);
};

}  // namespace isrlu
