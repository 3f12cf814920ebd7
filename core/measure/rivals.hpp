// Functions that users could take instead of ISRLU and ISRU, with xsimd's exponentials, in the kernels' loops.
#pragma once

#include "activation/array_loops.hpp"
#include "measure/measure_table.hpp"
#include "simd/exponential.hpp"

namespace isrlu {
namespace {

struct Copy {
    template <class V> static V value(V x) { return x; }
};
struct Relu {
    template <class V> static V value(V x) { return at_least(constant<V>(0), x); }
    template <class V> static V gradient(V x, V grad) { return select(x > constant<V>(0), grad, constant<V>(0)); }
};
struct Elu {
    template <class V> static V value(V x) { return select(x < constant<V>(0), expm1(x), x); }
    template <class V> static V gradient(V x, V grad) { return select(x < constant<V>(0), grad * exp(x), grad); }
};
struct Exp {
    template <class V> static V value(V x) { return exp(x); }
};
struct Tanh {
    template <class V> static V value(V x) { return tanh(x); }
    template <class V> static V gradient(V x, V grad)
    {
        const V y = tanh(x);
        return grad * fnma(y, y, constant<V>(1));
    }
};
struct Sigmoid {
    template <class V> static V value(V x) { return exact_sigmoid(x); }
    template <class V> static V gradient(V x, V grad)
    {
        const V y = value(x);
        return grad * (y * (constant<V>(1) - y));
    }
};
// InvSqrt of the paper's table 2.
struct InverseRoot {
    template <class V> static V value(V x) { return divide(constant<V>(1), sqrt(x)); }
};

template <class K, class V, class = void> constexpr bool has_gradient = false;
template <class K, class V>
constexpr bool has_gradient<K, V, std::void_t<decltype(K::gradient(std::declval<V>(), std::declval<V>()))>> = true;

template <class K, class V> constexpr Rival rival(std::string_view name)
{
    Rival r{name,
            [](const float* src, float* dst, std::size_t n) { map<V>([](V x) { return K::value(x); }, n, dst, src); },
            nullptr};
    if constexpr (has_gradient<K, V>)
        r.backward = [](const float* saved, const float* grad_out, float* grad_in, std::size_t n) {
            map<V>([](V x, V grad) { return K::gradient(x, grad); }, n, grad_in, saved, grad_out);
        };
    return r;
}

}  // namespace
}  // namespace isrlu
