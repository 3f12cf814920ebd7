// isru_sigmoid(x) = (1 + isru(x/2; alpha 1)) / 2 = 1/2 + isru(x; alpha 1/4) / 4
// isru_sigmoid'(x) = isru'(x; alpha 1/4) / 4
#pragma once

#include "activation/formula.hpp"

namespace isrlu {
namespace {

template <> struct Formula<Function::isru_sigmoid> {
    static constexpr bool has_alpha = false;
    template <class V> using Constants = Alpha<V>;

    template <Method M, AlphaMode, class V> static V forward(V x, Alpha<V>)
    {
        const Alpha<V> a = quarter<V>();
        return from_isru<M>(x, isru<M, AlphaMode::uniform>(clamp_to_limit(x, a), a));
    }

    template <Method M, AlphaMode, class V> static V backward(V x, V grad, Alpha<V>, V&)
    {
        const Alpha<V> a = quarter<V>();
        const V r = inverse_root<M>(radicand<AlphaMode::uniform>(clamp_to_limit(x, a), a));
        return grad * (r * r * r) * constant<V>(0.25);
    }

    // 4 y (1 - y) = 1 - isru^2 / 4 does not cancel.
    template <AlphaMode, class V> static V backward_from_output(V y, V grad, Alpha<V>)
    {
        return grad * slope_from_square(constant<V>(4) * y * (constant<V>(1) - y)) * constant<V>(0.25);
    }

private:
    template <class V> static Alpha<V> quarter() { return Alpha<V>(constant<V>(0.25)); }

    // 1/2 + y/4 from y = isru(x; 1/4). For x < 0 this cancels. There `full` and `ieee` compute the same value as
    // 1 / (2 d (1 + |y|/2)), d = 1 + x^2/4. d is scaled by 2^-64, so that neither d nor the quotient leaves the range
    // before the result does.
    template <Method M, class V> static V from_isru(V x, V y)
    {
        const V direct = fma(y, constant<V>(0.25), constant<V>(0.5));
        if constexpr (M != Method::full && M != Method::ieee) return direct;
        const V h = x * constant<V>(0x1p-33);
        const V d = fma(h, h, constant<V>(0x1p-64));
        const V tail = divide(constant<V>(0x1p-65), fma(d, y * constant<V>(-0.5), d));
        return select(x < constant<V>(0), tail, direct);
    }
};

}  // namespace
}  // namespace isrlu
