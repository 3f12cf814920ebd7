// The table of array kernels that each instruction set fills. All arrays are dense. Source and destination may be the same array.
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
constexpr bool has_alpha(Function f) { return f != Function::isru_sigmoid; }

// Numbers that come one per element (alphas, their gradients) have the type that is computed in: float64 for float64, else float32.
constexpr std::size_t compute_size(Type type) { return type == Type::float64 ? 8 : 4; }

// dst = f(src), one alpha
using Map = void (*)(const void* src, void* dst, std::size_t n, double alpha);
// dst = f(src), alpha of element i at alphas[i]
using MapLanes = void (*)(const void* src, void* dst, std::size_t n, const void* alphas);
// grad_in = grad_out f'; adds the sum of grad_out df/dalpha to *alpha_grad unless that is null
using Backward = void (*)(const void* saved, const void* grad_out, void* grad_in, std::size_t n, double alpha,
                          double* alpha_grad);
// the same with one alpha per element; adds to alpha_grads[i] unless that is null
using BackwardLanes = void (*)(const void* saved, const void* grad_out, void* grad_in, std::size_t n,
                               const void* alphas, void* alpha_grads);

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

struct RecurrentKernels;

struct Kernels {
    std::string_view name;
    Activation activations[function_count][type_count][method_count];
    Map rsqrt[type_count][method_count];
    const RecurrentKernels* recurrent;

    const Activation& activation(Function f, Type t, Method m) const
    {
        return activations[static_cast<int>(f)][static_cast<int>(t)][static_cast<int>(m)];
    }
};

}  // namespace isrlu
