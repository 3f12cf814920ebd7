// One set of names for SIMD batches (xsimd) and for plain numbers: the formula is written once and also builds as
// scalar code.
//
// Everything here, and in the headers that include this one, is in an unnamed namespace. Each instruction set has its
// own translation units and compiler flags. With external linkage the linker could merge two copies of a function and
// put AVX-512 code into the SSE2 build.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <xsimd/xsimd.hpp>

namespace isrlu {
namespace {

// Takes the place of an xsimd architecture in the scalar build.
struct scalar_isa {};

// vec<T, Isa>: a batch of T, or T itself in the scalar build.
template <class T, class Isa> struct vec_of {
    using type = xsimd::batch<T, Isa>;
};
template <class T> struct vec_of<T, scalar_isa> {
    using type = T;
};
template <class T, class Isa> using vec = typename vec_of<T, Isa>::type;

template <class V> struct traits {
    using value = typename V::value_type;
    using isa = typename V::arch_type;
    static constexpr std::size_t lanes = V::size;
};
template <> struct traits<float> {
    using value = float;
    using isa = scalar_isa;
    static constexpr std::size_t lanes = 1;
};
template <> struct traits<double> {
    using value = double;
    using isa = scalar_isa;
    static constexpr std::size_t lanes = 1;
};

template <class V> using value_t = typename traits<V>::value;
template <class V> using isa_t = typename traits<V>::isa;
template <class V> constexpr bool is_scalar = std::is_same_v<isa_t<V>, scalar_isa>;
template <class V> constexpr bool is_double = std::is_same_v<value_t<V>, double>;

// The unsigned integer of the same size as T, and a batch of them.
template <class T> using bits_of = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class V> using bits_t = vec<bits_of<value_t<V>>, isa_t<V>>;

// All lanes equal to c.
template <class V> V constant(double c) { return V(static_cast<value_t<V>>(c)); }

// Scalar versions of xsimd's batch functions. fma is not fused here: a * b + c rounds twice, as in the SSE2 build.
template <class T> using if_number = std::enable_if_t<std::is_floating_point_v<T>, T>;
template <class T> if_number<T> fma(T a, T b, T c) { return a * b + c; }
template <class T> if_number<T> fnma(T a, T b, T c) { return c - a * b; }
template <class T> if_number<T> select(bool mask, T a, T b) { return mask ? a : b; }
template <class T> if_number<T> abs(T a) { return std::fabs(a); }
template <class T> if_number<T> sqrt(T a) { return std::sqrt(a); }

// Whether a comparison is true in all lanes. On SSE2 and AVX2, mask() is one instruction and xsimd::all is two.
inline bool all_lanes(bool mask) { return mask; }
template <class T, class Isa> bool all_lanes(const xsimd::batch_bool<T, Isa>& mask)
{
    return mask.mask() == (std::uint64_t(1) << xsimd::batch<T, Isa>::size) - 1;
}

// Correctly rounded square root and division. On NEON xsimd's float32 versions are approximations written for 32-bit
// ARM, with errors of 2 ulp: use the AArch64 instructions.
#if defined(__aarch64__)
inline xsimd::batch<float, xsimd::neon64> sqrt(const xsimd::batch<float, xsimd::neon64>& a) { return vsqrtq_f32(a); }
inline xsimd::batch<float, xsimd::neon64> divide(const xsimd::batch<float, xsimd::neon64>& a,
                                                 const xsimd::batch<float, xsimd::neon64>& b)
{
    return vdivq_f32(a, b);
}
#endif
template <class V> V divide(const V& a, const V& b) { return a / b; }

// at_least(limit, x) = max(limit, x), at_most(limit, x) = min(limit, x). If x is NaN, the result is NaN: x86 returns
// the second operand, NEON returns the NaN. Intrinsics, because xsimd does not specify the order of the operands.
#if defined(__AVX512F__)
#define ISRLU_MIN_MAX_INTRINSIC(op) \
    else if constexpr (is_double<V>) return _mm512_##op##_pd(limit, x); else return _mm512_##op##_ps(limit, x);
#elif defined(__AVX2__)
#define ISRLU_MIN_MAX_INTRINSIC(op) \
    else if constexpr (is_double<V>) return _mm256_##op##_pd(limit, x); else return _mm256_##op##_ps(limit, x);
#elif defined(__SSE2__)
#define ISRLU_MIN_MAX_INTRINSIC(op) \
    else if constexpr (is_double<V>) return _mm_##op##_pd(limit, x); else return _mm_##op##_ps(limit, x);
#else
#define ISRLU_MIN_MAX_INTRINSIC(op) \
    else if constexpr (is_double<V>) return v##op##q_f64(limit, x); else return v##op##q_f32(limit, x);
#endif
template <class V> V at_least(V limit, V x)
{
    if constexpr (is_scalar<V>) return x < limit ? limit : x;
    ISRLU_MIN_MAX_INTRINSIC(max)
}
template <class V> V at_most(V limit, V x)
{
    if constexpr (is_scalar<V>) return x > limit ? limit : x;
    ISRLU_MIN_MAX_INTRINSIC(min)
}
#undef ISRLU_MIN_MAX_INTRINSIC

// x if -limit <= x <= -0. For any other x, some number in [-limit, 0] or NaN: the caller discards it.
// Float32 with AVX2 or NEON: one signed integer minimum. Read as integers, negative floats are below all positive ones
// and increase with their magnitude. Elsewhere: a floating-point maximum and minimum.
template <class V> V negative_within(V limit, V x)
{
#if defined(__AVX2__) || defined(__aarch64__)
    if constexpr (!is_scalar<V> && !is_double<V>) {
        using S = xsimd::batch<std::int32_t, isa_t<V>>;
        return xsimd::bitwise_cast<float>(
            S(xsimd::min(xsimd::bitwise_cast<std::int32_t>(x), xsimd::bitwise_cast<std::int32_t>(-limit))));
    }
#endif
    return at_most(constant<V>(0), at_least(-limit, x));
}

template <class V> bits_t<V> to_bits(V x)
{
    if constexpr (is_scalar<V>) {
        bits_t<V> b;
        std::memcpy(&b, &x, sizeof b);
        return b;
    }
    else return xsimd::bitwise_cast<bits_of<value_t<V>>>(x);
}
template <class V> V from_bits(bits_t<V> b)
{
    if constexpr (is_scalar<V>) {
        V x;
        std::memcpy(&x, &b, sizeof x);
        return x;
    }
    else return xsimd::bitwise_cast<value_t<V>>(b);
}

// Unaligned load and store.
template <class V> V read(const value_t<V>* p)
{
    if constexpr (is_scalar<V>) return *p;
    else return V::load_unaligned(p);
}
template <class V> void write(value_t<V>* p, V x)
{
    if constexpr (is_scalar<V>) *p = x;
    else x.store_unaligned(p);
}

}  // namespace
}  // namespace isrlu
