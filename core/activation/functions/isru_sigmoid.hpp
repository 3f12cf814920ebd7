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
        if constexpr (M == Method::full || M == Method::ieee) return with_tail<M>(x);
        const Alpha<V> a = quarter<V>();
        return fma(isru<M, AlphaMode::uniform>(clamp_to_limit(x, a), a), constant<V>(0.25), constant<V>(0.5));
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

    // With s = isru(|x|/2): (1 + s) / 2 for x >= 0. For x < 0, (1 - s) / 2 cancels: there the same value is computed as
    // 1 / (2 d (1 + s)), d = 1 + x^2/4. d is scaled by 2^-64, so that it does not overflow before the result is 0: the
    // tail goes down to subnormal numbers. |x| is clamped where the result is 0 or 1. s is computed as in `isru`.
    // Tried: the estimate of 1/w and a correction instead of the division. It needs three more multiplications, and
    // showed no gain over the division on Sapphire Rapids, AVX-512 or AVX2.
    template <Method M, class V> static V with_tail(V x)
    {
        const V one = constant<V>(1), half = constant<V>(0.5);
        const V h = at_most(constant<V>(is_double<V> ? 0x1p508 : 0x1p50), abs(x) * constant<V>(0x1p-33));
        const V d = fma(h, h, constant<V>(0x1p-64));
        V s;
        if constexpr (M == Method::ieee) s = divide(h, sqrt(d));
        else {
            const V r = refined_estimate(d);
            const V y = h * r;
            const V e = fnma(y, y, fnma(r * constant<V>(0x1p-64), r, one));
            s = fma(y * e, correction(e), y);
        }
        const V tail = divide(constant<V>(0x1p-65), fma(d, s, d));
        return select(x < constant<V>(0), tail, fma(s, half, half));
    }
};

}  // namespace
}  // namespace isrlu
