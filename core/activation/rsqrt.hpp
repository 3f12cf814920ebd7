// 1 / sqrt(x) for every x: +-0 gives +-infinity, infinity gives 0, x < 0 and NaN give NaN. Subnormal x is not flushed.
//
// The methods of inverse_root.hpp are for normal, finite x > 0. What the other inputs cost depends on the estimate:
//
//   AVX-512, NEON, scalar    The estimate itself is right for every x. A correction turns 0 and infinity into NaN; then
//                            the estimate is the result: one comparison and one blend.
//   SSE2, AVX2               rsqrtps takes a subnormal x for 0. One comparison finds the special numbers of a batch. A
//                            batch that has some takes square root and division for these, and only for these: a
//                            result does not depend on its neighbours.
//   kinney, table            They compute with the bits of x. As SSE2 and AVX2, on every instruction set.
//
// Largest error of `full`, in ulp, over every float32 in [1, 4) (it repeats with each factor of 4) and every second
// subnormal: scalar 0.92, SSE2 1.48, AVX2 1.00 (subnormal x 1.48), AVX-512 1.04.
// Before, subnormal x was scaled and each special result selected, which took longer than the root. AVX2 had 0.99 ulp
// for subnormal x then. `full`, Sapphire Rapids, `isrlu bench kernels --simd avx2 --size 16384 --rounds 7`, best of 3:
// 0.467 ns before, 0.179 ns now per element.
#pragma once

#include "activation/inverse_root.hpp"

namespace isrlu {
namespace {

// Whether `estimate` is right for every x, up to its relative error.
template <class V>
constexpr bool estimate_takes_every_x =
    is_scalar<V> || estimate_of<isa_t<V>>() == Estimate::bits14 || estimate_of<isa_t<V>>() == Estimate::bits8;

// The lanes with a normal, finite x > 0. Float32: read as integers, these numbers are one interval. Adding 0x7f800000
// moves it to the lower end of the signed integers.
template <class V> auto is_ordinary(V x)
{
    if constexpr (!is_scalar<V> && !is_double<V>) {
        using S = xsimd::batch<std::int32_t, isa_t<V>>;
        return xsimd::batch_bool_cast<float>(xsimd::bitwise_cast<std::int32_t>(x) + S(0x7f800000) <
                                             S(static_cast<std::int32_t>(0xff000000u)));
    }
    else {
        using Limits = std::numeric_limits<value_t<V>>;
        return (x >= constant<V>(Limits::min())) & (x <= constant<V>(Limits::max()));
    }
}
// The same where x has been multiplied by rsqrtps of x: 0, infinity, x < 0 and NaN give NaN, subnormal x gives
// infinity.
template <class V> auto is_ordinary_product(V x_times_estimate)
{
    return x_times_estimate < constant<V>(std::numeric_limits<double>::infinity());
}

template <Method M, class V> V rsqrt(V x)
{
    constexpr bool by_bits = M == Method::kinney || M == Method::table;
    const V root = inverse_root<M, estimate_takes_every_x<V>>(x);
    const auto unless_ordinary = [&](auto ordinary) {
        if (__builtin_expect(all_lanes(ordinary), 1)) return root;
        return select(ordinary, root, inverse_root<Method::ieee>(x));
    };
    if constexpr (M == Method::ieee) return root;
    else if constexpr (estimate_takes_every_x<V> && M == Method::approx) return root;
    else if constexpr (estimate_takes_every_x<V> && !by_bits) return select(root == root, root, estimate(x));
    // Float64 on SSE2 and AVX2: `full` starts from square root and division.
    else if constexpr (is_double<V> && M == Method::full) return select(root == root, root, refined_estimate(x));
    else if constexpr (!is_double<V> && !by_bits) return unless_ordinary(is_ordinary_product(x * estimate(x)));
    else return unless_ordinary(is_ordinary(x));
}

}  // namespace
}  // namespace isrlu
