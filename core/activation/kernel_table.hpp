// The table of array kernels of one instruction set. All arrays are dense. Source and destination may be the same.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace isrlu {

// The activations. To add one: its formula in functions/<name>.hpp, its name in the list in CMakeLists.txt. CMake
// generates activations.inc: ISRLU_ACTIVATION(name) for each.
#define ISRLU_ACTIVATION(name) name,
enum class Function {
#include "activations.inc"
};
#undef ISRLU_ACTIVATION
#define ISRLU_ACTIVATION(name) #name,
constexpr std::string_view function_names[] = {
#include "activations.inc"
};
#undef ISRLU_ACTIVATION
constexpr int function_count = std::size(function_names);

enum class Method { full, approx, newton1, newton2, ieee, kinney, table };
constexpr std::string_view method_names[] = {"full", "approx", "newton1", "newton2", "ieee", "kinney", "table"};
constexpr int method_count = std::size(method_names);

enum class Type { float32, float64, float16, bfloat16 };
constexpr std::string_view type_names[] = {"float32", "float64", "float16", "bfloat16"};
constexpr std::size_t type_sizes[] = {4, 8, 2, 2};  // bytes
constexpr int type_count = std::size(type_names);

// Size in bytes of an alpha per element and of its gradient. They have the type of the arithmetic: float64 for float64,
// float32 for the other types.
constexpr std::size_t compute_size(Type type) { return type == Type::float64 ? 8 : 4; }

// The numbers that all elements share. An activation with more of them than alpha adds a member with a default.
struct Parameters {
    double alpha;
    Parameters(double alpha_) : alpha(alpha_) {}
};

// dst = f(src), the same alpha for all elements
using Map = void (*)(const void* src, void* dst, std::size_t n, Parameters parameters);
// dst = f(src), alphas[i] for element i
using MapPerElement = void (*)(const void* src, void* dst, std::size_t n, const void* alphas);
// grad_in = grad_out * f'. Adds the sum of grad_out * df/dalpha to *alpha_grad unless alpha_grad is null. `saved`: the
// input, or for backward_from_output the output.
using Backward = void (*)(const void* saved, const void* grad_out, void* grad_in, std::size_t n, Parameters parameters,
                          double* alpha_grad);
// The same with alphas[i] for element i. Adds to alpha_grads[i] unless alpha_grads is null.
using BackwardPerElement = void (*)(const void* saved, const void* grad_out, void* grad_in, std::size_t n,
                                    const void* alphas, void* alpha_grads);

// The kernels of one function, type and method. The per-element ones are null for functions without an alpha per
// element.
struct Activation {
    bool takes_alpha;  // as a number
    Map forward;
    MapPerElement forward_per_element;
    Map derivative;
    MapPerElement derivative_per_element;
    Backward backward;
    BackwardPerElement backward_per_element;
    Backward backward_from_output;
    BackwardPerElement backward_from_output_per_element;

    bool has_alpha() const { return forward_per_element != nullptr; }
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
