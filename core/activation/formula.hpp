// The formula, written once for batches of every instruction set and for plain numbers.
//
//   isru(x)         = x / sqrt(1 + alpha x^2)             isru'(x)  = (1 / sqrt(1 + alpha x^2))^3
//   isrlu(x)        = x for x >= 0, else isru(x)          isrlu'(x) = 1 for x >= 0, else isru'(x)
//   isru_sigmoid(x) = (1 + isru(x/2; alpha 1)) / 2        = 1/2 + isru(x; alpha 1/4) / 4
//   df/dalpha       = -f^3 / 2, for ISRLU only at x < 0
//
// Domain: every x, alpha >= 0. |x| is clamped to limit(alpha), so that alpha x^2 does not overflow. Beyond the limit f
// is +-1/sqrt(alpha) to the last bit and f' rounds to 0.
//
// Largest error of ISRLU, method `full`, over every float32, in ulp (`isrlu accuracy`, docs/accuracy.md):
//
//                   scalar   SSE2   AVX2   AVX-512
//   f,  alpha 1       1.23   1.33   1.19      1.26
//   f,  alpha 3       1.46   1.40   1.40      1.46
//   f,  alpha 0.1     1.25   1.46   1.47      1.31
//   f', alpha 1       6.47   7.75   5.28      5.34
//   f', alpha 3       7.53   8.32   6.22      6.32
//   f', alpha 0.1     7.43   8.61   6.57      6.57
//
// Cost of ISRLU `full`, 65,536 float32 elements, AVX2, Zen 3: f 0.179 ns, f' 0.258 ns per element (docs/kernels.md).
//
// The form of the residual makes f accurate. With the estimate r of 1/sqrt(d), d = 1 + alpha x^2, and y = x r:
// e = 1 - d r^2 = (1 - r^2) - alpha y^2. The rounding error of d does not enter, and that of y is corrected where f
// saturates. Tried at the same cost or more, largest error at alpha 1:
//   2.2 ulp   e = 1 - (d r) r
//   1.8 ulp   fma(x, r, -y) added to y: corrects y's rounding error twice where f saturates
//   2.3 ulp   r corrected first, multiplied by x last
#pragma once

#include "activation/inverse_root.hpp"

namespace isrlu {
namespace {

// alpha and the limit of |x|: about 2^62 / sqrt(alpha) in float32, 2^500 / sqrt(alpha) in float64. (alpha limit) limit
// is finite, and f'(limit) rounds to 0.
// An infinite alpha, such as 1e300 in float32, is replaced by the largest finite number: infinity times 0 would be NaN.
// f(x) for x < 0 is then almost 0.
template <class V> struct Alpha {
    V value, limit;
    explicit Alpha(V alpha)
        : value(at_most(constant<V>(std::numeric_limits<value_t<V>>::max()), alpha)),
          limit(kinney_estimate(value) * constant<V>(is_double<V> ? 0x1p500 : 0x1p62))
    {}
};

// unit: alpha is 1, no multiplication. uniform: one alpha > 0, finite, for the whole array. per_element: one alpha for
// each element, any of which may be 0 (f(x) = x, f' = 1), infinite or NaN.
enum class AlphaMode { unit, uniform, per_element };

// isru_sigmoid has a fixed alpha of 1/4 and ignores the caller's.
template <Function F, AlphaMode A>
constexpr AlphaMode effective_mode = F == Function::isru_sigmoid ? AlphaMode::uniform : A;
template <Function F, class V> Alpha<V> effective_alpha(Alpha<V> a)
{
    if constexpr (F == Function::isru_sigmoid) return Alpha<V>(constant<V>(0.25));
    else return a;
}

template <AlphaMode A, class V> V times_alpha(Alpha<V> a, V x) { return A == AlphaMode::unit ? x : a.value * x; }

// ISRLU needs no upper limit: at x >= 0 it does not use the root.
template <Function F, class V> V clamp_to_limit(V x, Alpha<V> a)
{
    return F == Function::isrlu ? at_least(-a.limit, x) : at_most(a.limit, at_least(-a.limit, x));
}

// 1 + alpha x^2
template <AlphaMode A, class V> V radicand(V x, Alpha<V> a) { return fma(times_alpha<A>(a, x), x, constant<V>(1)); }

// x / sqrt(1 + alpha x^2)
template <Method M, AlphaMode A, class V> V isru(V x, Alpha<V> a)
{
    const V d = radicand<A>(x, a);
    if constexpr (M == Method::full) {
        const V r = refined_estimate(d);
        const V y = x * r;
        const V e = fnma(times_alpha<A>(a, y), y, fnma(r, r, constant<V>(1)));
        return fma(y * e, correction(e), y);
    }
    else if constexpr (M == Method::ieee) return divide(x, sqrt(d));
    else return x * inverse_root<M>(d);
}

// 1/2 + y/4 from y = isru(x; 1/4). For x < 0 this cancels. There `full` and `ieee` compute the same value as
// 1 / (2 d (1 + |y|/2)), d = 1 + x^2/4. d is scaled by 2^-64, so that neither d nor the quotient leaves the range
// before the result does.
template <Method M, class V> V sigmoid_from_isru(V x, V y)
{
    const V direct = fma(y, constant<V>(0.25), constant<V>(0.5));
    if constexpr (M != Method::full && M != Method::ieee) return direct;
    const V h = x * constant<V>(0x1p-33);
    const V d = fma(h, h, constant<V>(0x1p-64));
    const V tail = divide(constant<V>(0x1p-65), fma(d, y * constant<V>(-0.5), d));
    return select(x < constant<V>(0), tail, direct);
}

// `identity` where f(x) = x by definition (ISRLU at x >= 0, alpha = 0), else `computed`. For NaN: `computed`, a NaN.
template <Function F, AlphaMode A, class V> V select_identity(V x, V alpha, V identity, V computed)
{
    const V zero = constant<V>(0);
    if constexpr (F == Function::isrlu && A != AlphaMode::per_element) return select(x >= zero, identity, computed);
    else if constexpr (F == Function::isrlu)
        return select((x >= zero) | ((alpha == zero) & (x == x)), identity, computed);
    else if constexpr (A == AlphaMode::per_element) return select((alpha == zero) & (x == x), identity, computed);
    else return computed;
}

// f(x). ISRLU = max(x, isru(min(x, 0))), because x <= isru(x) for x < 0. The maximum returns x if x is NaN.
// Tried: a blend by the sign of x. It occupies one of the two multiply units, which limit the loop: blend 0.188 ns,
// maximum 0.166 ns per element, Zen 3.
template <Function F, Method M, AlphaMode Given, class V> V forward(V x, Alpha<V> alpha)
{
    constexpr AlphaMode A = effective_mode<F, Given>;
    const Alpha<V> a = effective_alpha<F>(alpha);
    if constexpr (F == Function::isrlu && A != AlphaMode::per_element)
        return at_least(isru<M, A>(negative_within(a.limit, x), a), x);
    const V y = isru<M, A>(clamp_to_limit<F>(x, a), a);
    if constexpr (F == Function::isru_sigmoid) return sigmoid_from_isru<M>(x, y);
    else return select_identity<F, A>(x, a.value, x, F == Function::isrlu ? at_least(x, y) : y);
}

template <Function F> constexpr double slope_at_0 = F == Function::isru_sigmoid ? 0.25 : 1;

// grad * f'(x), f' being the cube of the inverse root. Stores f(x) in `f`, for alpha_gradient.
template <Function F, Method M, AlphaMode Given, class V> V backward(V x, V grad, Alpha<V> alpha, V& f)
{
    constexpr AlphaMode A = effective_mode<F, Given>;
    const Alpha<V> a = effective_alpha<F>(alpha);
    const V clamped = clamp_to_limit<F>(x, a);
    const V r = inverse_root<M>(radicand<A>(clamped, a));
    f = select_identity<F, A>(x, a.value, x, clamped * r);
    return select_identity<F, A>(x, a.value, grad, grad * (r * r * r) * constant<V>(slope_at_0<F>));
}

// grad * f'(x) from the output y = f(x), by 1/sqrt(1 + alpha x^2) = sqrt(1 - alpha y^2). For in-place activations,
// which do not keep x. 1 - alpha y^2 cancels near saturation (absolute error of f' about 1e-7 in float32), so
// `backward` is preferred where x is available. The sigmoid uses 4 y (1 - y), which does not cancel.
template <Function F, AlphaMode Given, class V> V backward_from_output(V y, V grad, Alpha<V> a)
{
    constexpr AlphaMode A = effective_mode<F, Given>;
    V s;
    if constexpr (F == Function::isru_sigmoid) s = constant<V>(4) * y * (constant<V>(1) - y);
    else s = fnma(times_alpha<A>(a, y), y, constant<V>(1));
    s = at_least(constant<V>(0), s);
    return select_identity<F, A>(y, a.value, grad, grad * (s * sqrt(s)) * constant<V>(slope_at_0<F>));
}

// grad * df/dalpha = -grad f^3 / 2, from f = f(x). 0 where f does not depend on alpha: ISRLU at x >= 0, isru_sigmoid.
template <Function F, class V> V alpha_gradient(V f, V grad)
{
    if constexpr (F == Function::isru_sigmoid) return constant<V>(0);
    const V g = grad * constant<V>(-0.5) * (f * f * f);
    return F == Function::isrlu ? select(f >= constant<V>(0), constant<V>(0), g) : g;
}

// 1 / sqrt(x) for every x. Subnormal x is scaled by 2^108. +-0 gives +-infinity, infinity gives 0, x < 0 gives NaN.
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
