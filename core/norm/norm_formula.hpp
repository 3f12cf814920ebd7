// DyISRU for batches and plain numbers: f(u) = u / sqrt(1 + u^2), u = alpha x + shift; f'(u) = r^3 with
// r = 1/sqrt(1 + u^2).
//
// Domain: every x. Infinite x counts as the largest finite number, so that alpha = 0 gives u = shift and the gradient
// of alpha is 0, not 0 * infinity. Where |u| is above 2^62 (float32) or 2^500 (float64), f is +-1 to the last bit and
// f' is 0: there x, or u, is clamped to a number whose u^2 is finite. NaN stays NaN.
// Error: f as `full` in activation/formula.hpp. r is corrected by the same residual as f: e = (1 - r^2) - f^2.
#pragma once

#include "activation/formula.hpp"

namespace isrlu {
namespace {

// u = alpha x + shift. One clamp of x is enough if |shift| is at most half of the largest u (`ordinary`): beyond the
// limit u has the sign of alpha x. Any other shift, and an infinite alpha, take a second clamp, of u.
template <class V, bool ordinary> struct Line {
    static constexpr double largest_u = is_double<V> ? 0x1p500 : 0x1p62;
    V alpha, shift, limit;
    Line(double a, double s)
        : alpha(static_cast<value_t<V>>(a)),
          shift(static_cast<value_t<V>>(s)),
          limit(constant<V>(x_limit(a)))
    {}
    static double x_limit(double alpha)
    {
        const double top = std::numeric_limits<value_t<V>>::max(), limit = largest_u / std::fabs(alpha);
        return ordinary && limit < top ? limit : top;
    }
    static bool is_ordinary(double alpha, double shift)
    {
        return std::fabs(alpha) <= std::numeric_limits<value_t<V>>::max() && std::fabs(shift) <= largest_u / 2;
    }
    V clamped(V x) const { return at_most(limit, at_least(-limit, x)); }
    V argument(V clamped_x) const
    {
        const V u = fma(alpha, clamped_x, shift);
        return ordinary ? u : at_most(constant<V>(largest_u), at_least(constant<V>(-largest_u), u));
    }
};

template <class V> struct ValueAndRoot {
    V f, r;
};

// f(u) and r = 1/sqrt(1 + u^2)
template <class V> ValueAndRoot<V> value_and_root(V u)
{
    const V r = refined_estimate(fma(u, u, constant<V>(1)));
    const V f = u * r;
    const V e = fnma(f, f, fnma(r, r, constant<V>(1)));
    const V c = e * correction(e);
    return {fma(f, c, f), fma(r, c, r)};
}

// The forward pass computes value_scale f(u) and divides the weights by value_scale before the loop over the rows.
// Where the correction is f e / 2, 2 f is 2 f + f e: one multiplication less. AVX-512, Zen 4: 0.165 ns with a scale of
// 1, 0.150 ns with 2 per element. AVX2's correction has a second term, and a scale of 2 takes 5 % longer there.
template <class V> constexpr value_t<V> value_scale = estimate_of<isa_t<V>>() == Estimate::bits14 ? 2 : 1;

template <class V> V scaled_value(V u)
{
    if constexpr (value_scale<V> == 1) return value_and_root(u).f;
    else {
        const V r = refined_estimate(fma(u, u, constant<V>(1)));
        const V f = u * r;
        const V e = fnma(f, f, fnma(r, r, constant<V>(1)));
        return fma(f, e, f + f);
    }
}

template <class V, bool ordinary> V norm_forward(const Line<V, ordinary>& line, V x, V scaled_weight, V bias)
{
    return fma(scaled_weight, scaled_value(line.argument(line.clamped(x))), bias);
}

}  // namespace
}  // namespace isrlu
