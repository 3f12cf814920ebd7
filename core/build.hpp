// Fills one instruction set's table: every function, type and method.
#pragma once

#include <utility>

#include "audit.hpp"
#include "contenders.hpp"
#include "conv.hpp"
#include "kernels.hpp"

namespace isrlu {
namespace {

template <Type> struct stored { using type = float; };
template <> struct stored<Type::float64> { using type = double; };
template <> struct stored<Type::float16> { using type = float16; };
template <> struct stored<Type::bfloat16> { using type = bfloat16; };
template <class Isa, int T> using LoopsOf = Loops<typename stored<Type(T)>::type, Isa>;

template <class L, Function F, Method M> constexpr Activation activation()
{
    using Value = typename L::template Value<F, M>;
    using Slope = typename L::template Slope<F, M>;
    using In = typename L::template FromInput<F, M>;
    using Out = typename L::template FromOutput<F>;
    return {L::template map_one<Value>, L::template map_lanes<Value>, L::template map_one<Slope>, L::template map_lanes<Slope>,
            L::template backward_one<In>, L::template backward_lanes<In>, L::template backward_one<Out>, L::template backward_lanes<Out>};
}

template <class Isa, int T, int... M> constexpr void fill_type(Kernels& k, std::integer_sequence<int, M...>)
{
    using L = LoopsOf<Isa, T>;
    ((k.activations[int(Function::isrlu)][T][M] = activation<L, Function::isrlu, Method(M)>()), ...);
    ((k.activations[int(Function::isru)][T][M] = activation<L, Function::isru, Method(M)>()), ...);
    ((k.activations[int(Function::isru_sigmoid)][T][M] = activation<L, Function::isru_sigmoid, Method(M)>()), ...);
    ((k.rsqrt[T][M] = L::template rsqrt<Method(M)>), ...);
}
template <class Isa, int... T> constexpr void fill(Kernels& k, std::integer_sequence<int, T...>)
{
    (fill_type<Isa, T>(k, std::make_integer_sequence<int, method_count>()), ...);
}

// A constant expression: the table is data in the library, and none of this build's code runs before the CPU was asked for it.
template <class Isa> constexpr Kernels build(std::string_view name)
{
    using V = vec<float, Isa>;
    Kernels k{name, {}, {}, {}, {}, audit<Isa>};
    fill<Isa>(k, std::make_integer_sequence<int, type_count>());
    const Contender contenders[contender_count] = {
        contender<Copy, V>("copy"), contender<Relu, V>("relu"), contender<Elu, V>("elu"), contender<Exp, V>("exp"),
        contender<Tanh, V>("tanh"), contender<Sigmoid, V>("sigmoid"), contender<InverseRoot, V>("invsqrt")};
    for (int i = 0; i < contender_count; ++i) k.contenders[i] = contenders[i];
    const Convolution convolutions[convolution_count] = {
        {"5x5", 5, 5, convolve<5, 5, V>}, {"3x3", 3, 3, convolve<3, 3, V>}, {"3x1", 3, 1, convolve<3, 1, V>}, {"1x3", 1, 3, convolve<1, 3, V>}};
    for (int i = 0; i < convolution_count; ++i) k.convolutions[i] = convolutions[i];
    return k;
}

}  // namespace
}  // namespace isrlu
