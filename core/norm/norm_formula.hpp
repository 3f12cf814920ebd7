// DyISRU for batches and plain numbers: f(u) = u / sqrt(1 + u^2), u = alpha x + shift; f'(u) = r^3, r = 1/sqrt(1 + u^2).
//
// Domain: every x. Infinite x counts as the largest finite number, so that alpha = 0 gives u = shift and the gradient
// of alpha is 0, not 0 * infinity. |u| is clamped to 2^62 (float32) or 2^500 (float64), where f is +-1 to the last bit
// and u^2 is finite. NaN stays NaN.
// Error: f as `full` in activation/formula.hpp. r is corrected by the same residual as f: e = (1 - r^2) - f^2.
#pragma once

#include "activation/formula.hpp"

namespace isrlu {
namespace {

template <class V> struct Line {
    V alpha, shift, top, limit;
    Line(double a, double s)
        : alpha(static_cast<value_t<V>>(a)),
          shift(static_cast<value_t<V>>(s)),
          top(std::numeric_limits<value_t<V>>::max()),
          limit(constant<V>(is_double<V> ? 0x1p500 : 0x1p62))
    {}
    V finite(V x) const { return at_most(top, at_least(-top, x)); }
    V argument(V finite_x) const { return at_most(limit, at_least(-limit, fma(alpha, finite_x, shift))); }
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

template <class V> V norm_forward(const Line<V>& line, V x, V weight, V bias)
{
    return fma(weight, value_and_root(line.argument(line.finite(x))).f, bias);
}

}  // namespace
}  // namespace isrlu
