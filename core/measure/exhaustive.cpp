#include "measure/exhaustive.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

namespace isrlu {
namespace {

// Inputs per block. The buffers of a block, 72 KB, fit in the L2 cache.
constexpr std::size_t block_inputs = 2048;

struct Buffers {
    float x[block_inputs], y[block_inputs], nearest[block_inputs];
    double x_double[block_inputs], exact[block_inputs], ulps_per_unit[block_inputs];
};

// 2^(23 - exponent) of a float32 near `exact`, by arithmetic on the exponent bits. Subnormal numbers have the exponent
// of the smallest normal number.
double ulps_per_unit(double exact)
{
    constexpr std::uint64_t one = std::uint64_t(1) << 52, bias = 1023;
    std::uint64_t bits;
    std::memcpy(&bits, &exact, sizeof bits);
    bits &= 2047 * one;
    double power;
    std::memcpy(&power, &bits, sizeof bits);
    power = std::max(power, 0x1p-126);  // in float64: unlike a 64-bit integer maximum, every instruction set has it
    std::memcpy(&bits, &power, sizeof bits);
    bits = (2 * bias + 23) * one - bits;
    std::memcpy(&power, &bits, sizeof bits);
    return power;
}

// Computes the reference for b.x with the float64 kernel.
void fill_reference(Buffers& b, Map kernel, std::size_t n, float alpha)
{
    for (std::size_t i = 0; i < n; ++i) b.x_double[i] = b.x[i];
    kernel(b.x_double, b.exact, n, alpha);
    for (std::size_t i = 0; i < n; ++i) {
        b.nearest[i] = static_cast<float>(b.exact[i]);
        b.ulps_per_unit[i] = ulps_per_unit(b.exact[i]);
    }
}

}  // namespace

std::vector<CandidateError> exhaustive_error(const std::vector<Candidate>& candidates, Quantity quantity,
                                             InputRange range, const Kernels& reference, const MeasureKernels& measure)
{
    const auto b = std::make_unique<Buffers>();
    const auto kernel = [&](const Kernels& k, Type type, Method method) {
        const Activation& a = k.activation(quantity.function, type, method);
        return quantity.derivative ? a.derivative : a.forward;
    };
    std::vector<CandidateError> errors(candidates.size());
    for (std::uint64_t done = 0; done < range.count; done += block_inputs) {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(block_inputs, range.count - done));
        for (std::size_t i = 0; i < n; ++i) {
            const auto bits = static_cast<std::uint32_t>(range.first + done + i);
            std::memcpy(&b->x[i], &bits, sizeof bits);
        }
        // At x >= 0, half of all inputs, ISRLU's results are exact: a comparison of bytes is enough, and faster.
        const bool is_exact = quantity.function == Function::isrlu && b->x[0] >= 0 && b->x[n - 1] >= 0;
        bool has_reference = false;
        if (is_exact && quantity.derivative) std::fill_n(b->nearest, n, 1.0f);
        else if (is_exact) std::copy_n(b->x, n, b->nearest);
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            kernel(*candidates[c].kernels, Type::float32, candidates[c].method)(b->x, b->y, n, quantity.alpha);
            if (is_exact && std::memcmp(b->y, b->nearest, n * sizeof(float)) == 0) {
                errors[c].correct += n;
                continue;
            }
            if (!has_reference) fill_reference(*b, kernel(reference, Type::float64, Method::ieee), n, quantity.alpha);
            has_reference = true;
            Error error{errors[c].max_ulps, 0, 0};
            measure.add_error(b->y, {b->exact, b->ulps_per_unit, b->nearest}, n, error);
            errors[c].correct += error.correct;
            if (error.max_ulps > errors[c].max_ulps) errors[c].worst_input = b->x[error.worst];
            errors[c].max_ulps = error.max_ulps;
        }
    }
    return errors;
}

}  // namespace isrlu
