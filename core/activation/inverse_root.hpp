// 1 / sqrt(d) by every method of the paper. Domain: normal, finite d > 0. NaN gives NaN.
//
//   method    computation                                relative error, float32        time
//   approx    estimate instruction                       e                              0.096 ns
//   newton1   estimate, one Newton step                  1.5 e^2 and rounding           0.156 ns
//   newton2   estimate, two Newton steps                 rounding                       0.230 ns
//   ieee      square root and division                   1 ulp                          0.338 ns
//   kinney    bit trick of section 3.2, one step         0.175 %                        0.163 ns
//   table     2048 entries, no step                      2^-12                          0.562 ns
//   full      corrected until only rounding is left      1 ulp                          0.179 ns
//
// e, as the CPU vendors document it: 1.5 * 2^-12 for SSE2 and AVX2, 2^-14 for AVX-512, 2^-8 for NEON.
// Time per element: ISRLU with this method, 65,536 float32 elements, AVX2, Zen 3 (docs/kernels.md).
// The scalar build has no estimate instruction. It uses square root and division instead.
#pragma once

#include <limits>

#include "activation/kernel_table.hpp"
#include "activation/root_table.hpp"
#include "simd/batch.hpp"

namespace isrlu {
namespace {

// Accurate bits of the estimate instruction. They determine how many correction terms `full` needs.
enum class Estimate { exact, bits14, bits11, bits8 };

template <class Isa> constexpr Estimate estimate_of()
{
    if constexpr (std::is_same_v<Isa, scalar_isa>) return Estimate::exact;
    else if constexpr (std::is_base_of_v<xsimd::avx512f, Isa>) return Estimate::bits14;
    else if constexpr (std::is_base_of_v<xsimd::sse2, Isa> || std::is_base_of_v<xsimd::avx, Isa>)
        return Estimate::bits11;
    else return Estimate::bits8;
}

// k for d = m * 4^k with m in [1, 4), from the bits of d: half of its exponent, rounded down.
template <class V> bits_t<V> half_exponent(bits_t<V> d)
{
    using T = value_t<V>;
    using B = bits_of<T>;
    constexpr int mantissa_bits = std::numeric_limits<T>::digits - 1;
    constexpr B half_bias = std::numeric_limits<T>::max_exponent / 2;
    return ((d + bits_t<V>(B(1) << mantissa_bits)) >> (mantissa_bits + 1)) - bits_t<V>(half_bias);
}

// r, or NaN if d is NaN. For methods with integer arithmetic, which turns NaN into a number.
template <class V> V keep_nan(V d, V r) { return select(d == d, r, d); }

// The hardware's estimate. SSE2 and AVX2 have none for float64: they take float32's, with d scaled to [1, 4).
template <class V> V estimate(V d)
{
    if constexpr (is_scalar<V>) return 1 / sqrt(d);
    else if constexpr (is_double<V> && estimate_of<isa_t<V>>() == Estimate::bits11) {
        const auto k = half_exponent<V>(to_bits(d));
        const V m = from_bits<V>(to_bits(d) - (k << 53));
        return keep_nan(d, from_bits<V>(to_bits(xsimd::rsqrt(m)) - (k << 52)));
    }
    else return xsimd::rsqrt(d);
}

// One Newton step: r (3 - d r^2) / 2. Doubles the number of accurate bits. A subnormal d must not be halved: that would
// round it. Two steps share the halved d, so they take one multiplication less.
template <bool subnormal_d = false, class V> V newton(V d, V r)
{
    if constexpr (subnormal_d) return r * fnma(d * r, r * constant<V>(0.5), constant<V>(1.5));
    else return r * fnma(d * constant<V>(0.5) * r, r, constant<V>(1.5));
}

// With e = 1 - d r^2: 1/sqrt(d) = r (1 - e)^(-1/2) = r + r e (1/2 + 3/8 e + ...). Returns the factor of r e.
// The 3/8 e term is needed for float32 estimates of 11 bits, where 3/8 e^2 is up to 3.4 * 2^-24, and not for 14 bits.
template <class V> V correction(V e)
{
    if constexpr (!is_double<V> && estimate_of<isa_t<V>>() == Estimate::bits11)
        return fma(e, constant<V>(0.375), constant<V>(0.5));
    else return constant<V>(0.5);
}

// An estimate that needs only one `correction`: relative error 2^-11 or less for float32, 2^-30 or less for float64.
// Float64 on SSE2 and AVX2: square root and division 1.06 ns, float32's estimate and two refinements 1.32 ns per
// element, Zen 3.
template <bool subnormal_d = false, class V> V refined_estimate(V d)
{
    if constexpr (is_double<V> && estimate_of<isa_t<V>>() == Estimate::bits11) return divide(constant<V>(1), sqrt(d));
    V r = estimate(d);
    if constexpr (estimate_of<isa_t<V>>() == Estimate::bits8) r = newton<subnormal_d>(d, r);
    if constexpr (is_double<V> && !is_scalar<V>) {
        const V e = fnma(d * r, r, constant<V>(1));
        r = fma(r * e, fma(e, constant<V>(0.375), constant<V>(0.5)), r);
    }
    return r;
}

// Kinney's bit trick before its Newton step: one shift and one subtraction halve and negate the exponent. Relative
// error up to 3.5 %.
template <class V> V kinney_estimate(V d)
{
    constexpr auto magic = static_cast<bits_of<value_t<V>>>(is_double<V> ? 0x5fe6eb50c7b537a9u : 0x5f3759dfu);
    return from_bits<V>(bits_t<V>(magic) - (to_bits(d) >> 1));
}

// Index: the exponent's last bit and the first 10 bits of the mantissa. root_table.cpp has the entries.
template <class V> V table_root(V d)
{
    using B = bits_of<value_t<V>>;
    constexpr int mantissa_bits = std::numeric_limits<value_t<V>>::digits - 1;
    const auto b = to_bits(d);
    const auto index = (b >> (mantissa_bits + 1 - table_bits)) & bits_t<V>(B((1 << table_bits) - 1));
    V entry;
    if constexpr (is_scalar<V>) entry = root_table<value_t<V>>()[index];
    else entry = V::gather(root_table<value_t<V>>(), xsimd::bitwise_cast<std::make_signed_t<B>>(index));
    return keep_nan(d, from_bits<V>(to_bits(entry) - (half_exponent<V>(b) << mantissa_bits)));
}

// 1 / sqrt(d). subnormal_d: d may be subnormal, if the estimate accepts that.
template <Method M, bool subnormal_d = false, class V> V inverse_root(V d)
{
    if constexpr (M == Method::approx) return estimate(d);
    else if constexpr (M == Method::newton1) return newton<subnormal_d>(d, estimate(d));
    else if constexpr (M == Method::newton2) return newton<subnormal_d>(d, newton<subnormal_d>(d, estimate(d)));
    else if constexpr (M == Method::ieee) return divide(constant<V>(1), sqrt(d));
    else if constexpr (M == Method::kinney) return newton(d, kinney_estimate(d));
    else if constexpr (M == Method::table) return table_root(d);
    else {
        const V r = refined_estimate<subnormal_d>(d);
        const V e = fnma(d * r, r, constant<V>(1));
        return fma(r * e, correction(e), r);
    }
}

}  // namespace
}  // namespace isrlu
