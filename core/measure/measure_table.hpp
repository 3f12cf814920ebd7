// The benchmarks' table of one instruction set. Part of isrlu_lab._measure, not of isrlu._core.
#pragma once

#include <cstddef>
#include <string_view>

namespace isrlu {

// A function that users could take instead of ISRLU or ISRU. backward is null if no benchmark needs it.
struct Rival {
    std::string_view name;
    void (*forward)(const float* src, float* dst, std::size_t n);
    // saved: the input
    void (*backward)(const float* saved, const float* grad_out, float* grad_in, std::size_t n);
};
constexpr int rival_count = 7;

// A float64 reference for float32 results.
struct Reference {
    const double* exact;
    const double* ulps_per_unit;  // 1 / the distance between the float32 numbers around `exact`
    const float* nearest;  // `exact`, rounded to float32
};
struct Error {
    double max_ulps = 0;
    std::size_t worst = 0;  // index of the first element with max_ulps
    std::size_t correct = 0;  // number of correctly rounded results
};

// A direct convolution without padding: see convolution.hpp.
struct Convolution {
    std::string_view name;  // "5x5": height x width of the filter
    std::size_t height, width;
    void (*run)(const float* image, const float* filter, float* out, std::size_t rows, std::size_t columns);
};
constexpr int convolution_count = 4;

// One operation, repeated on its own result: in one chain, or in `independent_chains` of them side by side.
struct Chain {
    std::string_view name;
    float (*dependent)(std::size_t steps);
    float (*independent)(std::size_t steps);
};
constexpr int chain_count = 3;
constexpr std::size_t independent_chains = 8;

struct MeasureKernels {
    Rival rivals[rival_count];
    Convolution convolutions[convolution_count];
    Chain chains[chain_count];
    void (*add_error)(const float* results, const Reference& reference, std::size_t n, Error& total);
};

}  // namespace isrlu
