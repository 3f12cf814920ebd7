// Fills the kernel table of one instruction set: every function, type and method.
#pragma once

#include <utility>

#include "activation/array_loops.hpp"
#include "activation/kernel_table.hpp"
#include "activation_formulas.inc"  // every functions/*.hpp that CMakeLists.txt lists

namespace isrlu {
namespace {

// The C++ type of a Type in memory.
template <Type> struct stored {
    using type = float;
};
template <> struct stored<Type::float64> {
    using type = double;
};
template <> struct stored<Type::float16> {
    using type = float16;
};
template <> struct stored<Type::bfloat16> {
    using type = bfloat16;
};

template <class L, Function F, Method M> constexpr Activation activation()
{
    using Value = typename L::template Value<F, M>;
    using Slope = typename L::template Slope<F, M>;
    using In = typename L::template FromInput<F, M>;
    using Out = typename L::template FromOutput<F>;
    Activation a{};
    a.takes_alpha = Formula<F>::has_alpha || alpha_is_number<F>;
    a.forward = L::template map_uniform<Value>;
    a.derivative = L::template map_uniform<Slope>;
    a.backward = L::template backward_uniform<In>;
    a.backward_from_output = L::template backward_uniform<Out>;
    if constexpr (Formula<F>::has_alpha) {
        a.forward_per_element = L::template map_per_element<Value>;
        a.derivative_per_element = L::template map_per_element<Slope>;
        a.backward_per_element = L::template backward_per_element<In>;
        a.backward_from_output_per_element = L::template backward_per_element<Out>;
    }
    return a;
}

template <class L, Function F, int... M>
constexpr void fill_methods(Activation (&row)[method_count], std::integer_sequence<int, M...>)
{
    ((row[M] = activation<L, F, Method(M)>()), ...);
}
template <class Isa, int T, int... F, int... M>
constexpr void fill_type(Kernels& k, std::integer_sequence<int, F...>, std::integer_sequence<int, M...> methods)
{
    using L = Loops<typename stored<Type(T)>::type, Isa>;
    (fill_methods<L, Function(F)>(k.activations[F][T], methods), ...);
    ((k.rsqrt[T][M] = L::template rsqrt<Method(M)>), ...);
}
template <class Isa, int... T> constexpr void fill_types(Kernels& k, std::integer_sequence<int, T...>)
{
    (fill_type<Isa, T>(k, std::make_integer_sequence<int, function_count>(),
                       std::make_integer_sequence<int, method_count>()),
     ...);
}

// A constant expression: the table is static data, so no code of this instruction set runs before dispatch.
template <class Isa> constexpr Kernels fill_table(std::string_view name, const RecurrentKernels& recurrent)
{
    Kernels k{name, {}, {}, &recurrent};
    fill_types<Isa>(k, std::make_integer_sequence<int, type_count>());
    return k;
}

}  // namespace
}  // namespace isrlu
