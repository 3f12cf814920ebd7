// Every way to 1 / sqrt(d) that the paper names, for batches of normal, finite d > 0. A NaN stays a NaN.
//
//   method    what it is                                    largest relative error, float32
//   approx    the instruction's estimate alone              2^-11.4 by Intel's and AMD's word, 2^-14 on AVX-512, 2^-8 on NEON
//   newton1   the estimate and one Newton step              about twice the bits
//   newton2   the estimate and two Newton steps             rounding only
//   ieee      square root and division                      1 ulp
//   kinney    the bit trick of section 3.2, one step        0.175 %
//   table     2048 entries, no step                         2^-12
//   full      refined until rounding alone remains          1 ulp
//
// The scalar build has no estimate instruction: square root and division stand in for it.
#pragma once

#include "activation/kernel_table.hpp"
#include "activation/root_table.hpp"
#include "simd/batch.hpp"

namespace isrlu {

namespace {

// How far a build's estimate is off: decides how many terms `full` needs.
enum class Estimate { exact, bits14, bits11, bits8 };

template <class Isa> constexpr Estimate estimate_of()
{
    if constexpr (std::is_same_v<Isa, scalar_isa>) return Estimate::exact;
    else if constexpr (std::is_base_of_v<xsimd::avx512f, Isa>) return Estimate::bits14;
    else if constexpr (std::is_base_of_v<xsimd::sse2, Isa> || std::is_base_of_v<xsimd::avx, Isa>)
        return Estimate::bits11;
    else return Estimate::bits8;
}

// d = m * 4^k with m in [1, 4): the exponent of d, halved and rounded down, in the bits of an integer.
template <class V> bits_t<V> half_exponent(bits_t<V> d)
{
    using T = value_t<V>;
    using B = bits_of<T>;
    constexpr int mantissa_bits = std::numeric_limits<T>::digits - 1;
    constexpr B half_bias = std::numeric_limits<T>::max_exponent / 2;
    return ((d + bits_t<V>(B(1) << mantissa_bits)) >> (mantissa_bits + 1)) - bits_t<V>(half_bias);
}

// Integer arithmetic turns a NaN into a number: put it back.
template <class V> V keep_nan(V d, V r) { return select(d == d, r, d); }

// The hardware's estimate. SSE2 and AVX2 have none for float64: float32's serves, on d brought into its range.
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

// r <- r (3 - d r^2) / 2: doubles the accurate bits.
template <class V> V newton(V d, V r) { return r * fnma(d * constant<V>(0.5) * r, r, constant<V>(1.5)); }

// With e = 1 - d r^2, 1/sqrt(d) = r (1 - e)^(-1/2) = r (1 + e/2 + 3/8 e^2 + ...): the factor of r e in the correction to r.
// The quadratic term is needed where the estimate has 11 bits (its e^2 would still be 3.4 * 2^-24), not where it has 14.
template <class V> V correction(V e)
{
    if constexpr (!is_double<V> && estimate_of<isa_t<V>>() == Estimate::bits11)
        return fma(e, constant<V>(0.375), constant<V>(0.5));
    else return constant<V>(0.5);
}

// An estimate so good that one `correction` leaves only rounding: 2^-11 for float32, 2^-30 for float64. Where float64 has no estimate of its
// own, square root and division are faster than float32's estimate and two refinements (1.06 and 1.32 ns an element on Zen 3).
template <class V> V good_estimate(V d)
{
    if constexpr (is_double<V> && estimate_of<isa_t<V>>() == Estimate::bits11) return divide(constant<V>(1), sqrt(d));
    V r = estimate(d);
    if constexpr (estimate_of<isa_t<V>>() == Estimate::bits8) r = newton(d, r);
    if constexpr (is_double<V> && !is_scalar<V>) {
        const V e = fnma(d * r, r, constant<V>(1));
        r = fma(r * e, fma(e, constant<V>(0.375), constant<V>(0.5)), r);
    }
    return r;
}

// Kinney's bit trick before its Newton step: half the exponent, negated, by one shift and one subtraction (3.5 % error).
template <class V> V kinney_estimate(V d)
{
    constexpr auto magic = static_cast<bits_of<value_t<V>>>(is_double<V> ? 0x5fe6eb50c7b537a9u : 0x5f3759dfu);
    return from_bits<V>(bits_t<V>(magic) - (to_bits(d) >> 1));
}

// The table is indexed by the exponent's last bit and ten bits of the mantissa; see tables.cpp for its entries.
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

// 1 / sqrt(d)
template <Method M, class V> V inverse_root(V d)
{
    if constexpr (M == Method::approx) return estimate(d);
    else if constexpr (M == Method::newton1) return newton(d, estimate(d));
    else if constexpr (M == Method::newton2) return newton(d, newton(d, estimate(d)));
    else if constexpr (M == Method::ieee) return divide(constant<V>(1), sqrt(d));
    else if constexpr (M == Method::kinney) return newton(d, kinney_estimate(d));
    else if constexpr (M == Method::table) return table_root(d);
    else {
        const V r = good_estimate(d);
        const V e = fnma(d * r, r, constant<V>(1));
        return fma(r * e, correction(e), r);
    }
}

}  // namespace
}  // namespace isrlu
