// What one instruction set's build offers: a table of array kernels. All arrays are dense; source and destination may be the same array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isrlu {

enum class Function { isrlu, isru, isru_sigmoid };
enum class Method { full, approx, newton1, newton2, ieee, kinney, table };
enum class Type { float32, float64, float16, bfloat16 };

constexpr int function_count = 3, method_count = 7, type_count = 4;
constexpr std::string_view function_names[] = {"isrlu", "isru", "isru_sigmoid"};
constexpr std::string_view method_names[] = {"full", "approx", "newton1", "newton2", "ieee", "kinney", "table"};
constexpr std::string_view type_names[] = {"float32", "float64", "float16", "bfloat16"};
constexpr std::size_t type_sizes[] = {4, 8, 2, 2};

// Numbers that come one per element (alphas, their gradients) have the type that is computed in: float64 for float64, else float32.
constexpr std::size_t compute_size(Type type) { return type == Type::float64 ? 8 : 4; }

// dst = f(src), one alpha
using Map = void (*)(const void* src, void* dst, std::size_t n, double alpha);
// dst = f(src), alpha of element i at alphas[i]
using MapLanes = void (*)(const void* src, void* dst, std::size_t n, const void* alphas);
// grad_in = grad_out f'; adds the sum of grad_out df/dalpha to *alpha_grad unless that is null
using Backward = void (*)(const void* saved, const void* grad_out, void* grad_in, std::size_t n, double alpha, double* alpha_grad);
// the same with one alpha per element; adds to alpha_grads[i] unless that is null
using BackwardLanes = void (*)(const void* saved, const void* grad_out, void* grad_in, std::size_t n, const void* alphas, void* alpha_grads);

struct Activation {
    Map forward;
    MapLanes forward_lanes;
    Map derivative;
    MapLanes derivative_lanes;
    Backward backward;
    BackwardLanes backward_lanes;
    Backward backward_from_output;
    BackwardLanes backward_from_output_lanes;
};

// What a user would take instead, for benchmarks: forward, and gradient from the input; null where a contender has none.
struct Contender {
    std::string_view name;
    void (*forward)(const float* src, float* dst, std::size_t n);
    void (*backward)(const float* saved, const float* grad_out, float* grad_in, std::size_t n);
};
constexpr int contender_count = 7;

// Comparison of float32 results with a float64 reference, for the accuracy table.
struct Reference {
    const double* exact;
    const double* ulps_per_unit;  // 1 / the distance of the float32 numbers around `exact`
    const float* nearest;  // `exact`, rounded
};
struct Audit {
    double max_ulps = 0;
    std::size_t worst = 0;  // index of the first element with max_ulps
    std::size_t correct = 0;  // how many are correctly rounded
};

// out = image * filter without padding, for the paper's table 1: see conv.hpp.
struct Convolution {
    std::string_view name;  // "5x5": height x width of the filter
    std::size_t height, width;
    void (*run)(const float* image, const float* filter, float* out, std::size_t rows, std::size_t columns);
};
constexpr int convolution_count = 4;

struct Kernels {
    std::string_view name;
    Activation activations[function_count][type_count][method_count];
    Map rsqrt[type_count][method_count];
    Contender contenders[contender_count];
    Convolution convolutions[convolution_count];
    void (*audit)(const float* results, const Reference& reference, std::size_t n, Audit& total);

    const Activation& activation(Function f, Type t, Method m) const
    {
        return activations[static_cast<int>(f)][static_cast<int>(t)][static_cast<int>(m)];
    }
};

// Each build's table; null where the build was left out for this processor family.
const Kernels* scalar_kernels();
const Kernels* sse2_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* neon_kernels();

}  // namespace isrlu
