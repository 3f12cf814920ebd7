#include "sweep.hpp"

#include <algorithm>
#include <cstring>

#include "dispatch.hpp"

namespace isrlu {

std::vector<Finding> sweep(const std::vector<Candidate>& candidates, Function f, bool derivative, float alpha, std::uint32_t first, std::uint64_t count)
{
    constexpr std::size_t block = 2048;  // input, result and reference stay in the first-level cache
    static thread_local float x[block], y[block];
    static thread_local double wide[block], reference[block];
    const auto pick = [&](const Kernels& k, Type type, Method method) {
        const Activation& a = k.activation(f, type, method);
        return derivative ? a.derivative : a.forward;
    };
    const Map exact = pick(*available().back(), Type::float64, Method::ieee);
    std::vector<Finding> findings(candidates.size());
    for (std::uint64_t done = 0; done < count; done += block) {
        const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(block, count - done));
        for (std::size_t i = 0; i < n; ++i) {
            const auto bits = static_cast<std::uint32_t>(first + done + i);
            std::memcpy(&x[i], &bits, sizeof bits);
            wide[i] = x[i];
        }
        exact(wide, reference, n, alpha);
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            pick(*candidates[c].kernels, Type::float32, candidates[c].method)(x, y, n, alpha);
            Audit audit{findings[c].max_ulps, 0, 0};
            available().back()->audit(y, reference, n, audit);
            findings[c].correct += audit.correct;
            if (audit.max_ulps > findings[c].max_ulps) findings[c].worst_input = x[audit.worst];
            findings[c].max_ulps = audit.max_ulps;
        }
    }
    return findings;
}

}  // namespace isrlu
