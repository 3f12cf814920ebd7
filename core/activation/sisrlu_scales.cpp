#include "activation/sisrlu_scales.hpp"

#include <cmath>

namespace isrlu {
namespace {

// beta = E[z+] / E[z- / sqrt(1 + alpha z^2)], lambda^-2 = 1/2 + beta^2 E[z-^2 / (1 + alpha z^2)].
// The trapezoidal rule in t, z = e^t, with the step 3/32 from e^-40 to e^3, as in src/isrlu/signal/_sisrlu.py, which
// tells why it converges. In long double, so that the sums are correct to the last bit of a double where long double is
// wider. The sums run upwards, from small terms to large ones.
SisrluScales integrate(double alpha)
{
    if (alpha == 0) return {1, 1};
    constexpr int steps_per_3 = 32, first = -40 * steps_per_3 / 3 - 1, last = 3 * steps_per_3 / 3;
    const long double root_alpha = std::sqrt(static_cast<long double>(alpha));
    long double linear = 0, first_moment = 0, second_moment = 0, half_variance = 0;
    for (int i = first; i <= last; ++i) {
        const long double z = std::exp(3.0L * i / steps_per_3), curve = z / std::hypot(1.0L, root_alpha * z);
        const long double density = z * std::exp(-z * z / 2);
        linear += z * density;
        first_moment += curve * density;
        second_moment += curve * curve * density;
        half_variance += z * z * density;
    }
    const long double beta = linear / first_moment;
    const long double lambda = std::sqrt(2 / (1 + beta * beta * (second_moment / half_variance)));
    return {static_cast<double>(lambda), static_cast<double>(lambda * beta)};
}

}  // namespace

SisrluScales sisrlu_scales(double alpha)
{
    thread_local double known = 0;
    thread_local SisrluScales scales = {1, 1};
    if (alpha != known) {
        scales = integrate(alpha);
        known = alpha;
    }
    return scales;
}

}  // namespace isrlu
