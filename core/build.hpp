// Fills one instruction set's table: every function, type and method.
#pragma once

#include <utility>

#include "audit.hpp"
#include "contenders.hpp"
#include "kernels.hpp"

namespace isrlu {
namespace {

template <Type T> struct stored { using type = float; };
template <> struct stored<Type::float64> { using type = double; };
template <> struct stored<Type::float16> { using type = float16; };
template <> struct stored<Type::bfloat16> { using type = bfloat16; };

template <class Isa, Function F, Type T, Method M> constexpr Activation activation()
{
    using L = Loops<typename stored<T>::type, Isa>;
    using Of = typename L::template Of<F, M>;
    using In = typename Of::FromInput;
    using Out = typename L::template FromOutput<F>;
    return {Of::forward, Of::forward_lanes, Of::derivative, Of::derivative_lanes,
            L::template backward<F, In>, L::template backward_lanes<F, In>,
            L::template backward<F, Out>, L::template backward_lanes<F, Out>};
}

template <class Isa, int F, int T, int... M> constexpr void fill_methods(Kernels& k, std::integer_sequence<int, M...>)
{
    ((k.activations[F][T][M] = activation<Isa, Function(F), Type(T), Method(M)>()), ...);
}
template <class Isa, int T, int... M> constexpr void fill_roots(Kernels& k, std::integer_sequence<int, M...>)
{
    ((k.rsqrt[T][M] = Loops<typename stored<Type(T)>::type, Isa>::template rsqrt<Method(M)>), ...);
}
template <class Isa, int... T> constexpr void fill_types(Kernels& k, std::integer_sequence<int, T...>)
{
    constexpr auto methods = std::make_integer_sequence<int, method_count>();
    (fill_methods<Isa, int(Function::isrlu), T>(k, methods), ...);
    (fill_methods<Isa, int(Function::isru), T>(k, methods), ...);
    (fill_methods<Isa, int(Function::isru_sigmoid), T>(k, methods), ...);
    (fill_roots<Isa, T>(k, methods), ...);
}

// A constant expression: the table is data in the library, and none of this build's code runs before the CPU was asked for it.
template <class Isa> constexpr Kernels build(std::string_view name)
{
    using V = vec<float, Isa>;
    Kernels k{name, {}, {}, {}, audit};
    fill_types<Isa>(k, std::make_integer_sequence<int, type_count>());
    const Contender contenders[contender_count] = {
        contender<Copy, V>("copy"), contender<Relu, V>("relu"), contender<Elu, V>("elu"), contender<Exp, V>("exp"),
        contender<Tanh, V>("tanh"), contender<Sigmoid, V>("sigmoid"), contender<InverseRoot, V>("invsqrt")};
    for (int i = 0; i < contender_count; ++i) k.contenders[i] = contenders[i];
    return k;
}

}  // namespace
}  // namespace isrlu
