// sisrlu(x) = p x for x >= 0, n x / sqrt(1 + alpha x^2) for x < 0: self-normalising ISRLU, p and n from sisrlu_scales
// sisrlu'(x) = p for x >= 0, n (1 / sqrt(1 + alpha x^2))^3 for x < 0. There is a kink at 0, where sisrlu' is p.
//
// Cost: as many multiplications as ISRLU at alpha = 1 has. The factors of x < 0 are part of the correction of the
// root: with the estimate r of 1/sqrt(d) and e = 1 - d r^2,
//   f  = x r s (1 - e)^(-1/2) = x (r (s + s/2 e + ...))
//   f' = r^3 t (1 - e)^(-3/2) = r^3 (t + 3/2 t e + ...)
// d = x^2 + 1/alpha, without a multiplication by alpha, s = n / sqrt(alpha), t = n / alpha^(3/2). That is mode unit.
// Mode uniform is for an alpha whose 1/alpha or x^2 would leave the range: it multiplies x by a power of two first.
#pragma once

#include "activation/formula.hpp"
#include "activation/sisrlu_scales.hpp"

namespace isrlu {
namespace {

template <> constexpr bool alpha_is_number<Function::sisrlu> = true;

template <> struct Formula<Function::sisrlu> {
    static constexpr bool has_alpha = false;

    template <class T> static AlphaMode mode(T alpha)
    {
        if (alpha == 0) return AlphaMode::zero;
        return alpha >= T(0x1p-20) && alpha <= T(0x1p60) ? AlphaMode::unit : AlphaMode::uniform;
    }

    // x_scale = q is 1 in mode unit. Else it is the power of two that brings a = alpha / q^2 into [1, 4).
    template <class V> struct Constants {
        using T = value_t<V>;
        V x_scale, limit, addend, positive, value_scale, slope_scale, negative, inverse_square;

        explicit Constants(Parameters p)
        {
            const double largest = std::numeric_limits<T>::max();
            const double alpha = static_cast<T>(p.alpha < largest ? p.alpha : largest);
            const SisrluScales scales = sisrlu_scales(alpha);
            const bool unit = mode(static_cast<T>(alpha)) == AlphaMode::unit;
            const int exponent = alpha == 0 ? 0 : std::ilogb(alpha);
            const double q = unit ? 1 : std::ldexp(1.0, exponent >> 1);  // exp2 needs glibc 2.29: not in manylinux_2_28
            const double a = alpha / q / q, saturation = scales.negative / std::sqrt(alpha),
                         far = is_double<V> ? 0x1p500 : 0x1p62;
            x_scale = constant<V>(q);
            limit = constant<V>(far / q < largest ? far / q : largest);
            addend = constant<V>(1 / a);
            positive = constant<V>(scales.positive);
            negative = constant<V>(scales.negative);
            value_scale = constant<V>(saturation * q);
            slope_scale = constant<V>(scales.negative / (a * std::sqrt(a)));
            inverse_square = constant<V>(1 / saturation / saturation);
        }
    };

    template <Method M, AlphaMode A, class V> static V forward(V x, const Constants<V>& c)
    {
        if constexpr (A == AlphaMode::zero) return x;
        const V clamped = at_least(-c.limit, x), d = radicand<A>(clamped, c);
        V factor;
        if constexpr (M == Method::full) {
            const V r = refined_estimate(d), e = fnma(d * r, r, constant<V>(1));
            factor = r * series(e, c.value_scale, 0.5, 0.375);
        }
        else factor = c.value_scale * inverse_root<M>(d);
        return clamped * select(x < constant<V>(0), factor, c.positive);
    }

    // The scale is multiplied first: r^3 alone may underflow where f' does not.
    template <Method M, AlphaMode A, class V> static V backward(V x, V grad, const Constants<V>& c, V&)
    {
        if constexpr (A == AlphaMode::zero) return select(x == x, grad, x);
        const V d = radicand<A>(at_least(-c.limit, x), c);
        V r, scale = c.slope_scale;
        if constexpr (M == Method::full) {
            r = refined_estimate(d);
            scale = series(fnma(d * r, r, constant<V>(1)), c.slope_scale, 1.5, 1.875);
        }
        else r = inverse_root<M>(d);
        if constexpr (A == AlphaMode::uniform) {  // beyond the limit a large n keeps f' above 0
            const V u = c.x_scale * x;
            const auto far = u < constant<V>(is_double<V> ? -0x1p40 : -0x1p20);
            r = select(far, divide(constant<V>(-1), u), r);
            scale = select(far, c.slope_scale, scale);
        }
        return grad * select(x >= constant<V>(0), c.positive, r * scale * r * r);
    }

    // With the saturation s = n / sqrt(alpha): 1 / (1 + alpha x^2) = 1 - (y / s)^2. It cancels near saturation.
    template <AlphaMode A, class V> static V backward_from_output(V y, V grad, const Constants<V>& c)
    {
        if constexpr (A == AlphaMode::zero) return select(y == y, grad, y);
        const V slope = c.negative * slope_from_square(fnma(c.inverse_square * y, y, constant<V>(1)));
        return grad * select(y >= constant<V>(0), c.positive, slope);
    }

private:
    template <AlphaMode A, class V> static V radicand(V x, const Constants<V>& c)
    {
        if constexpr (A == AlphaMode::uniform) x = c.x_scale * x;
        return fma(x, x, c.addend);
    }

    // scale (1 + a e + b e^2). The square is needed where `correction` has one.
    template <class V> static V series(V e, V scale, double a, double b)
    {
        if constexpr (!is_double<V> && estimate_of<isa_t<V>>() == Estimate::bits11)
            return fma(e, fma(e, scale * constant<V>(b), scale * constant<V>(a)), scale);
        else return fma(e, scale * constant<V>(a), scale);
    }
};

}  // namespace
}  // namespace isrlu
