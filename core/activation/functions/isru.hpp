// isru(x) = x / sqrt(1 + alpha x^2)
// isru'(x) = (1 / sqrt(1 + alpha x^2))^3
#pragma once

#include "activation/formula.hpp"

namespace isrlu {
namespace {

template <> struct Formula<Function::isru> {
    static constexpr bool has_alpha = true;
    template <class V> using Constants = Alpha<V>;

    template <Method M, AlphaMode A, class V> static V forward(V x, Alpha<V> a)
    {
        return select_alpha_0<A>(x, a.value, x, isru<M, A>(clamp_to_limit(x, a), a));
    }

    template <Method M, AlphaMode A, class V> static V backward(V x, V grad, Alpha<V> a, V& f)
    {
        const V clamped = clamp_to_limit(x, a);
        const V r = inverse_root<M>(radicand<A>(clamped, a));
        f = select_alpha_0<A>(x, a.value, x, clamped * r);
        return select_alpha_0<A>(x, a.value, grad, grad * (r * r * r));
    }

    template <AlphaMode A, class V> static V backward_from_output(V y, V grad, Alpha<V> a)
    {
        return select_alpha_0<A>(y, a.value, grad, grad * slope_from_output<A>(y, a));
    }

    template <class V> static V alpha_gradient(V f, V grad) { return grad * constant<V>(-0.5) * (f * f * f); }
};

}  // namespace
}  // namespace isrlu
