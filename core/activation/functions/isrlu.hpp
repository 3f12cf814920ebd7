// isrlu(x) = x for x >= 0, else isru(x)
// isrlu'(x) = 1 for x >= 0, else isru'(x)
#pragma once

#include "activation/formula.hpp"

namespace isrlu {
namespace {

template <> struct Formula<Function::isrlu> {
    static constexpr bool has_alpha = true;
    template <class V> using Constants = Alpha<V>;

    // max(x, isru(min(x, 0))), because x <= isru(x) for x < 0. The maximum returns x if x is NaN.
    // Tried: a blend by the sign of x. It occupies one of the two multiply units, which limit the loop: blend 0.188 ns,
    // maximum 0.166 ns per element, Zen 3.
    template <Method M, AlphaMode A, class V> static V forward(V x, Alpha<V> a)
    {
        if constexpr (A != AlphaMode::per_element) return at_least(isru<M, A>(negative_within(a.limit, x), a), x);
        else return select_identity<A>(x, a.value, x, at_least(x, isru<M, A>(at_least(-a.limit, x), a)));
    }

    template <Method M, AlphaMode A, class V> static V backward(V x, V grad, Alpha<V> a, V& f)
    {
        const V clamped = at_least(-a.limit, x);  // no upper limit: at x >= 0 the root is not used
        const V r = inverse_root<M>(radicand<A>(clamped, a));
        f = select_identity<A>(x, a.value, x, clamped * r);
        return select_identity<A>(x, a.value, grad, grad * (r * r * r));
    }

    template <AlphaMode A, class V> static V backward_from_output(V y, V grad, Alpha<V> a)
    {
        return select_identity<A>(y, a.value, grad, grad * slope_from_output<A>(y, a));
    }

    template <class V> static V alpha_gradient(V f, V grad)
    {
        const V g = grad * constant<V>(-0.5) * (f * f * f);
        return select(f >= constant<V>(0), constant<V>(0), g);
    }

private:
    // `identity` where f(x) = x: x >= 0 or alpha = 0. Else `computed`, also for NaN.
    template <AlphaMode A, class V> static V select_identity(V x, V alpha, V identity, V computed)
    {
        const V zero = constant<V>(0);
        if constexpr (A != AlphaMode::per_element) return select(x >= zero, identity, computed);
        else return select((x >= zero) | ((alpha == zero) & (x == x)), identity, computed);
    }
};

}  // namespace
}  // namespace isrlu
