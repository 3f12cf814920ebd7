// float16 and bfloat16 in memory, float32 in registers; rounded once, to nearest even, NaN kept.
//
// Tried: widening pieces of an array into a buffer and running the float32 kernels there. It halves the library, and costs 0.14 ns an element on
// Zen 3, more than half of the whole formula.
#pragma once

#include "simd/batch.hpp"

namespace isrlu {
namespace {

struct float16 {
    std::uint16_t bits;
};
struct bfloat16 {
    std::uint16_t bits;
};

// The type that a stored type is computed in.
template <class S> struct compute_of {
    using type = S;
};
template <> struct compute_of<float16> {
    using type = float;
};
template <> struct compute_of<bfloat16> {
    using type = float;
};
template <class S> using compute_t = typename compute_of<S>::type;

// 16-bit words to and from the low halves of 32-bit lanes. xsimd does this lane by lane.
template <class V> bits_t<V> read_words(const std::uint16_t* p)
{
    if constexpr (is_scalar<V>) return *p;
    else {
#if defined(__AVX512F__)
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
        return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__SSE2__)
        return _mm_unpacklo_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)), _mm_setzero_si128());
#else
        return vmovl_u16(vld1_u16(p));
#endif
    }
}
template <class V> void write_words(std::uint16_t* p, bits_t<V> words)
{
    if constexpr (is_scalar<V>) *p = static_cast<std::uint16_t>(words);
    else {
#if defined(__AVX512F__)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(words));
#elif defined(__AVX2__)
        const __m256i packed = _mm256_packus_epi32(words, words);  // within each half of the register
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
#elif defined(__SSE2__)
        const __m128i sign_extended =
            _mm_srai_epi32(_mm_slli_epi32(words, 16), 16);  // SSE2 packs with signed saturation only
        _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi32(sign_extended, sign_extended));
#else
        vst1_u16(p, vmovn_u32(words));
#endif
    }
}

// To nearest even, in the upper half. A NaN stays one if its lower half is empty.
template <class U> U rounded_bfloat16(U b) { return b + U(0x7fffu) + ((b >> 16) & U(1u)); }

template <class V> V read(const bfloat16* p) { return from_bits<V>(read_words<V>(&p->bits) << 16); }

template <class V> void write(bfloat16* p, V x)
{
    using U = bits_t<V>;
    const U b = to_bits(x), quiet = b | U(0x400000u);
    write_words<V>(&p->bits, to_bits(select(x == x, from_bits<V>(rounded_bfloat16(b)), from_bits<V>(quiet))) >> 16);
}

// A batch of 32-bit lanes holds twice as many bfloat16: those at even places are one shift from being floats, those at odd places one mask, and the
// two batches of results go back together. That is half the work of widening and packing. For results of bfloat16 alone: a NaN of theirs has an
// empty lower half, be it handed on or made on the way.
template <class V> bits_t<V> read_both(const bfloat16* p)
{
    return bits_t<V>::load_unaligned(reinterpret_cast<const std::uint32_t*>(p));
}
template <class V> V read_even(const bfloat16* p) { return from_bits<V>(read_both<V>(p) << 16); }
template <class V> V read_odd(const bfloat16* p) { return from_bits<V>(read_both<V>(p) & bits_t<V>(0xffff0000u)); }
template <class V> void write_both(bfloat16* p, V even, V odd)
{
    using U = bits_t<V>;
#if defined(__AVX2__) && !defined(__AVX512F__)
    // Rounded half up, which is to nearest even but for ties (an empty lower half afterwards): those are rare, and take the way below.
    const U low_up = to_bits(even) + U(0x8000u), high_up = to_bits(odd) + U(0x8000u);
    const __m256i ties = _mm256_cmpeq_epi16(_mm256_min_epu16(low_up, high_up), _mm256_setzero_si256());
    if (__builtin_expect((_mm256_movemask_epi8(ties) & 0x33333333) == 0, 1)) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_blend_epi16(low_up >> 16, high_up, 0xaa));
        return;
    }
#endif
    const U low = rounded_bfloat16(to_bits(even)) >> 16, high = rounded_bfloat16(to_bits(odd)) & U(0xffff0000u);
    (low | high).store_unaligned(reinterpret_cast<std::uint32_t*>(p));
}

// Shifting a float16 into float32's place leaves the exponent too small by 112: multiplying by 2^112 mends it, for subnormals as well.
// Infinity and NaN had the largest exponent and get float32's.
template <class V> V read_portable(const float16* p)
{
    using U = bits_t<V>;
    const U h = read_words<V>(&p->bits);
    const V magnitude = from_bits<V>((h & U(0x7fffu)) << 13) * constant<V>(0x1p112);
    const V special = from_bits<V>(to_bits(magnitude) | U(0x7f800000u));
    const V finite_or_special = select(magnitude >= constant<V>(65536), special, magnitude);
    return from_bits<V>(to_bits(finite_or_special) | ((h & U(0x8000u)) << 16));
}

// Adding 2^(e+13), e the exponent of the result's place, makes the adder round to float16's last place; for results below 2^-14 that place
// stays 2^-24. What is left is to move the exponent.
template <class V> void write_portable(float16* p, V x)
{
    using U = bits_t<V>;
    const U b = to_bits(x), sign = b & U(0x80000000u), magnitude_bits = b ^ sign;
    const V magnitude = from_bits<V>(magnitude_bits);
    const U subnormal = to_bits(magnitude + constant<V>(0.5)) - U(0x3f000000u);
    const U normal = (magnitude_bits - U(112u << 23) + U(0xfffu) + ((magnitude_bits >> 13) & U(1u))) >> 13;
    const V finite = select(magnitude < constant<V>(0x1p-14), from_bits<V>(subnormal), from_bits<V>(normal));
    const V large = select(x == x, from_bits<V>(U(0x7c00u)), from_bits<V>(U(0x7e00u)));
    const U h = to_bits(select(magnitude < constant<V>(65520), finite, large));
    write_words<V>(&p->bits, h | (sign >> 16));
}

#if defined(__AVX512F__)
template <class V> V read(const float16* p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
template <class V> void write(float16* p, V x)
{
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__F16C__)
template <class V> V read(const float16* p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
template <class V> void write(float16* p, V x)
{
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__aarch64__)
template <class V> V read(const float16* p)
{
    if constexpr (is_scalar<V>) return read_portable<V>(p);
    else return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p->bits)));
}
template <class V> void write(float16* p, V x)
{
    if constexpr (is_scalar<V>) write_portable(p, x);
    else vst1_u16(&p->bits, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}
#else
template <class V> V read(const float16* p) { return read_portable<V>(p); }
template <class V> void write(float16* p, V x) { write_portable(p, x); }
#endif

}  // namespace
}  // namespace isrlu
