// What the formulas of the activations share, written once for batches of every instruction set and for plain numbers.
// Each activation is a specialisation of Formula in functions/<name>.hpp.
//
//   isru(x) = x / sqrt(1 + alpha x^2)          isru'(x) = (1 / sqrt(1 + alpha x^2))^3          df/dalpha = -f^3 / 2
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
    explicit Alpha(Parameters p) : Alpha(V(static_cast<value_t<V>>(p.alpha))) {}
};

// unit: alpha is 1, no multiplication. uniform: one alpha > 0, finite, for the whole array. per_element: one alpha for
// each element, any of which may be 0 (f(x) = x, f' = 1), infinite or NaN. zero: alpha is 0; only for functions with
// alpha_is_number.
enum class AlphaMode { unit, uniform, per_element, zero };

// The formula of one activation. functions/<name>.hpp specialises it with these members:
//
//   has_alpha                              false: the caller's alpha is ignored, and no kernel takes one per element
//   Constants<V>                           what a loop keeps in registers, made from the kernel's Parameters and, if
//                                          has_alpha, also from a batch of alphas
//   forward<M, A>(x, c)                    f(x)
//   backward<M, A>(x, grad, c, f)          grad * f'(x). Stores f(x) in `f`, for alpha_gradient.
//   backward_from_output<A>(y, grad, c)    grad * f'(x) from y = f(x), for in-place activations, which do not keep x
//   alpha_gradient(f, grad)                grad * df/dalpha from f = f(x). Only if has_alpha.
template <Function> struct Formula;

// True for a function that takes one alpha for the whole array and none per element: has_alpha is then false, and
//   mode(alpha)                            chooses the mode of the loop
template <Function> constexpr bool alpha_is_number = false;

template <AlphaMode A, class V> V times_alpha(Alpha<V> a, V x) { return A == AlphaMode::unit ? x : a.value * x; }

template <class V> V clamp_to_limit(V x, Alpha<V> a) { return at_most(a.limit, at_least(-a.limit, x)); }

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

// `identity` where alpha is 0 and f(x) = x, else `computed`. For NaN: `computed`, a NaN. Only an alpha per element can
// be 0.
template <AlphaMode A, class V> V select_alpha_0(V x, V alpha, V identity, V computed)
{
    if constexpr (A != AlphaMode::per_element) return computed;
    else return select((alpha == constant<V>(0)) & (x == x), identity, computed);
}

// isru'(x) from the output y, by 1/sqrt(1 + alpha x^2) = sqrt(1 - alpha y^2): s = 1 - alpha y^2. It cancels near
// saturation (absolute error of f' about 1e-7 in float32), so `backward` is preferred where x is available.
template <class V> V slope_from_square(V s)
{
    s = at_least(constant<V>(0), s);
    return s * sqrt(s);
}
template <AlphaMode A, class V> V slope_from_output(V y, Alpha<V> a)
{
    return slope_from_square(fnma(times_alpha<A>(a, y), y, constant<V>(1)));
}

}  // namespace
}  // namespace isrlu
