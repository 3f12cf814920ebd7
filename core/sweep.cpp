#include "sweep.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "dispatch.hpp"

namespace isrlu {
namespace {

constexpr std::size_t block = 2048;  // inputs, results and references of a block stay in the second-level cache

struct Buffers {
    float x[block], y[block], nearest[block];
    double wide[block], exact[block], ulps_per_unit[block];
};

// 2^(23 - exponent), where subnormals share the smallest normal number's exponent: arithmetic on the exponent's bits.
double ulps_per_unit(double exact)
{
    constexpr std::uint64_t one = std::uint64_t(1) << 52, bias = 1023;
    std::uint64_t bits;
    std::memcpy(&bits, &exact, sizeof bits);
    bits &= 2047 * one;
    double power;
    std::memcpy(&power, &bits, sizeof bits);
    power = std::max(power, 0x1p-126);  // of doubles: every instruction set has it, and the loop becomes SIMD code
    std::memcpy(&bits, &power, sizeof bits);
    bits = (2 * bias + 23) * one - bits;
    std::memcpy(&power, &bits, sizeof bits);
    return power;
}

// The reference for x, by the kernel `exact` for float64.
template <class Kernel> void refer(Buffers& b, Kernel exact, std::size_t n, float alpha)
{
    for (std::size_t i = 0; i < n; ++i) b.wide[i] = b.x[i];
    exact(b.wide, b.exact, n, alpha);
    for (std::size_t i = 0; i < n; ++i) {
        b.nearest[i] = static_cast<float>(b.exact[i]);
        b.ulps_per_unit[i] = ulps_per_unit(b.exact[i]);
    }
}

}  // namespace

std::vector<Finding> sweep(const std::vector<Candidate>& candidates, Function f, bool derivative, float alpha, std::uint32_t first, std::uint64_t count)
{
    const auto b = std::make_unique<Buffers>();
    const Kernels& best = *available().back();
    const auto pick = [&](const Kernels& k, Type type, Method method) {
        const Activation& a = k.activation(f, type, method);
        return derivative ? a.derivative : a.forward;
    };
    std::vector<Finding> findings(candidates.size());
    for (std::uint64_t done = 0; done < count; done += block) {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(block, count - done));
        for (std::size_t i = 0; i < n; ++i) {
            const auto bits = static_cast<std::uint32_t>(first + done + i);
            std::memcpy(&b->x[i], &bits, sizeof bits);
        }
        // ISRLU's positive side, half of all inputs, takes no root: its results are exact, and a comparison of bytes shows it sooner.
        const bool without_error = f == Function::isrlu && b->x[0] >= 0 && b->x[n - 1] >= 0;
        bool referred = false;
        if (without_error && derivative) std::fill_n(b->nearest, n, 1.0f);
        else if (without_error) std::copy_n(b->x, n, b->nearest);
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            pick(*candidates[c].kernels, Type::float32, candidates[c].method)(b->x, b->y, n, alpha);
            if (without_error && std::memcmp(b->y, b->nearest, n * sizeof(float)) == 0) {
                findings[c].correct += n;
                continue;
            }
            if (!referred) refer(*b, pick(best, Type::float64, Method::ieee), n, alpha);
            referred = true;
            Audit audit{findings[c].max_ulps, 0, 0};
            best.audit(b->y, {b->exact, b->ulps_per_unit, b->nearest}, n, audit);
            findings[c].correct += audit.correct;
            if (audit.max_ulps > findings[c].max_ulps) findings[c].worst_input = b->x[audit.worst];
            findings[c].max_ulps = audit.max_ulps;
        }
    }
    return findings;
}

}  // namespace isrlu
