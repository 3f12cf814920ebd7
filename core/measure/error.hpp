// The error of float32 results against a float64 reference, in ulp.
#pragma once

#include <limits>

#include "measure/measure_table.hpp"
#include "simd/batch.hpp"

namespace isrlu {
namespace {

// Loads float32 into a float64 batch.
template <class V> V read_as_double(const float* p)
{
    if constexpr (is_scalar<V>) return *p;
    else {
#if defined(__AVX512F__)
        return _mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__)
        return _mm256_cvtps_pd(_mm_loadu_ps(p));
#elif defined(__SSE2__)
        return _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
        return vcvt_f64_f32(vld1_f32(p));
#endif
    }
}

template <class V> V ulps(const float* results, const Reference& reference, std::size_t i)
{
    return abs(read_as_double<V>(results + i) - read<V>(reference.exact + i)) * read<V>(reference.ulps_per_unit + i);
}

// Adds the errors of n results to `total`. The index of the worst result is searched only after a new maximum. No exact
// result is NaN, so a NaN among the results counts as an infinite error.
template <class Isa> void add_error(const float* results, const Reference& reference, std::size_t n, Error& total)
{
    using V = vec<double, Isa>;
    constexpr std::size_t lanes = traits<V>::lanes;
    V largest = constant<V>(0);
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) largest = at_least(largest, ulps<V>(results, reference, i));
    double worst = 0;
    if constexpr (is_scalar<V>) worst = largest;
    else worst = xsimd::reduce_max(largest);
    for (; i < n; ++i) worst = at_least(worst, ulps<double>(results, reference, i));
    std::size_t correct = 0, numbers = 0;
    for (i = 0; i < n; ++i) correct += results[i] == reference.nearest[i], numbers += results[i] == results[i];
    total.correct += correct;
    if (numbers < n) worst = std::numeric_limits<double>::infinity();
    if (!(worst > total.max_ulps)) return;
    total.max_ulps = worst;
    const auto is_worst = [&](std::size_t k) {
        return numbers < n ? results[k] != results[k] : ulps<double>(results, reference, k) == worst;
    };
    for (total.worst = 0; !is_worst(total.worst); ++total.worst) {
    }
}

}  // namespace
}  // namespace isrlu
