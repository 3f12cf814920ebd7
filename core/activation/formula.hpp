// The formula, once, for batches of any instruction set and for plain numbers.
//
//   isru(x)         = x / sqrt(1 + alpha x^2)                     isru'(x) = (1 / sqrt(1 + alpha x^2))^3
//   isrlu(x)        = x for x >= 0, else isru(x)                  isrlu'(x) = 1 for x >= 0, else isru'(x)
//   isru_sigmoid(x) = (1 + isru(x/2; alpha 1)) / 2                = 1/2 + isru(x; alpha 1/4) / 4
//   d f / d alpha   = -f^3 / 2 wherever the root is taken
//
// Large x: alpha x^2 must not overflow, so x is held within +-limit(alpha), far inside saturation: there f is 1/sqrt(alpha) to the last bit
// and f' rounds to 0.
//
// Error of `full`, all float32, alpha 1: at most 1.2 ulp forward (docs/accuracy.md). What makes it so good is the residual's form. With the
// estimate r of 1/sqrt(d) and y = x r, e = 1 - d r^2 = (1 - r^2) - alpha y^2: d's rounding error does not enter, and y's own rounding error is
// corrected as far as f saturates. Tried, at the same cost or more: e = 1 - (d r) r, 2.2 ulp; adding fma(x, r, -y) back, 1.8 ulp (it corrects
// y's rounding twice where f saturates); r refined first and multiplied last, 2.3 ulp.
#pragma once

#include "activation/inverse_root.hpp"

namespace isrlu {
namespace {

// An alpha with its limit. `limit` is about 2^62 / sqrt(alpha) (2^500 in float64): (alpha limit) limit is finite, and limit's cubed inverse root is 0.
// An infinite alpha, such as 1e300 is in float32, counts as the largest number: f(x) for x < 0 is all but 0 then, and inf times 0 would be NaN.
template <class V> struct Alpha {
    V value, limit;
    explicit Alpha(V alpha)
        : value(at_most(constant<V>(std::numeric_limits<value_t<V>>::max()), alpha)),
          limit(kinney_estimate(value) * constant<V>(is_double<V> ? 0x1p500 : 0x1p62))
    {}
};

// Where alpha comes from: 1, which needs no product; one number for the whole array, positive and finite; or one per lane, where any may be 0
// (f(x) = x, f' = 1) or no such number.
enum class Alphas { unit, one, lanes };

// isru_sigmoid has an alpha of its own, whatever the caller says.
template <Function F, Alphas A> constexpr Alphas source = F == Function::isru_sigmoid ? Alphas::one : A;
template <Function F, class V> Alpha<V> own(Alpha<V> a)
{
    if constexpr (F == Function::isru_sigmoid) return Alpha<V>(constant<V>(0.25));
    else return a;
}

template <Alphas A, class V> V times(Alpha<V> a, V x) { return A == Alphas::unit ? x : a.value * x; }

template <Function F, class V> V within_limit(V x, Alpha<V> a)
{
    return F == Function::isrlu ? at_least(-a.limit, x)
                                : at_most(a.limit, at_least(-a.limit, x));  // ISRLU's positive side takes no root
}

// 1 + alpha x^2
template <Alphas A, class V> V radicand(V x, Alpha<V> a) { return fma(times<A>(a, x), x, constant<V>(1)); }

// x / sqrt(1 + alpha x^2)
template <Method M, Alphas A, class V> V isru(V x, Alpha<V> a)
{
    const V d = radicand<A>(x, a);
    if constexpr (M == Method::full) {
        const V r = good_estimate(d);
        const V y = x * r;
        const V e = fnma(times<A>(a, y), y, fnma(r, r, constant<V>(1)));
        return fma(y * e, correction(e), y);
    }
    else if constexpr (M == Method::ieee) return divide(x, sqrt(d));
    else return x * inverse_root<M>(d);
}

// 1/2 + y/4 from y = isru(x; 1/4). For x < 0 that cancels, and the same value is 1 / (2 d (1 + |y|/2)), d = 1 + x^2/4: scaled by 2^64,
// so that neither d nor the quotient leaves the range before the result does.
template <Method M, class V> V sigmoid_from_isru(V x, V y)
{
    const V plain = fma(y, constant<V>(0.25), constant<V>(0.5));
    if constexpr (M != Method::full && M != Method::ieee) return plain;
    const V h = x * constant<V>(0x1p-33);
    const V d = fma(h, h, constant<V>(0x1p-64));
    const V tail = divide(constant<V>(0x1p-65), fma(d, y * constant<V>(-0.5), d));
    return select(x < constant<V>(0), tail, plain);
}

// `identity` where f is the identity (ISRLU at x >= 0, alpha = 0), else `rooted`. A NaN is no such place: it takes the root and stays NaN.
template <Function F, Alphas A, class V> V unless_identity(V x, V alpha, V identity, V rooted)
{
    const V zero = constant<V>(0);
    if constexpr (F == Function::isrlu && A != Alphas::lanes) return select(x >= zero, identity, rooted);
    else if constexpr (F == Function::isrlu)
        return select((x >= zero) | ((alpha == zero) & (x == x)), identity, rooted);
    else if constexpr (A == Alphas::lanes) return select((alpha == zero) & (x == x), identity, rooted);
    else return rooted;
}

// f(x). ISRLU is max(x, isru(min(x, 0))): for x < 0 the root only shortens x. A blend would take one of the two units that multiply, and those are
// the limit: 0.188 and 0.166 ns an element on Zen 3. The maximum gives x where x is NaN.
template <Function F, Method M, Alphas from, class V> V forward(V x, Alpha<V> alpha)
{
    constexpr Alphas A = source<F, from>;
    const Alpha<V> a = own<F>(alpha);
    if constexpr (F == Function::isrlu && A != Alphas::lanes)
        return at_least(isru<M, A>(negative_within(a.limit, x), a), x);
    const V y = isru<M, A>(within_limit<F>(x, a), a);
    if constexpr (F == Function::isru_sigmoid) return sigmoid_from_isru<M>(x, y);
    else return unless_identity<F, A>(x, a.value, x, F == Function::isrlu ? at_least(x, y) : y);
}

template <Function F> constexpr double slope_at_0 = F == Function::isru_sigmoid ? 0.25 : 1;

// grad * f'(x): the cube of the inverse root. `root` receives f(x) for the gradient of alpha.
template <Function F, Method M, Alphas from, class V> V backward(V x, V grad, Alpha<V> alpha, V& root)
{
    constexpr Alphas A = source<F, from>;
    const Alpha<V> a = own<F>(alpha);
    const V held = within_limit<F>(x, a);
    const V r = inverse_root<M>(radicand<A>(held, a));
    root = unless_identity<F, A>(x, a.value, x, held * r);
    return unless_identity<F, A>(x, a.value, grad, grad * (r * r * r) * constant<V>(slope_at_0<F>));
}

// grad * f'(x) from the output y = f(x), with 1/sqrt(1 + alpha x^2) = sqrt(1 - alpha y^2): what an in-place activation trains from.
// The difference cancels near saturation, so `backward` is the better one where x was saved. The sigmoid's is 4 y (1 - y), which does not cancel.
template <Function F, Alphas from, class V> V backward_from_output(V y, V grad, Alpha<V> a)
{
    constexpr Alphas A = source<F, from>;
    V s;
    if constexpr (F == Function::isru_sigmoid) s = constant<V>(4) * y * (constant<V>(1) - y);
    else s = fnma(times<A>(a, y), y, constant<V>(1));
    s = at_least(constant<V>(0), s);
    return unless_identity<F, A>(y, a.value, grad, grad * (s * sqrt(s)) * constant<V>(slope_at_0<F>));
}

// grad * df/dalpha = -grad f^3 / 2, from f(x); 0 on ISRLU's positive side and for isru_sigmoid, which have no alpha.
template <Function F, class V> V alpha_gradient(V f, V grad)
{
    if constexpr (F == Function::isru_sigmoid) return constant<V>(0);
    const V g = grad * constant<V>(-0.5) * (f * f * f);
    return F == Function::isrlu ? select(f >= constant<V>(0), constant<V>(0), g) : g;
}

// 1 / sqrt(x) for every x: subnormals, 0, infinity, negative numbers and NaN too.
template <Method M, class V> V rsqrt(V x)
{
    const V tiny = constant<V>(std::numeric_limits<value_t<V>>::min());
    const V infinity = constant<V>(std::numeric_limits<double>::infinity());
    const auto subnormal = x < tiny;
    V r = inverse_root<M>(select(subnormal, x * constant<V>(0x1p108), x));
    r = select(subnormal, r * constant<V>(0x1p54), r);
    r = select(x == infinity, constant<V>(0), r);
    r = select(x == constant<V>(0), divide(constant<V>(1), x), r);
    return select(x < constant<V>(0), constant<V>(std::numeric_limits<double>::quiet_NaN()), r);
}

}  // namespace
}  // namespace isrlu
