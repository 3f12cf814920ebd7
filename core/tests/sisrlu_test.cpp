// Self-normalising ISRLU: its two constants, and the rules of docs/accuracy.md with its own slope and saturation.
#include <cmath>
#include <limits>

#include "activation/sisrlu_scales.hpp"
#include "tests/reference.hpp"

namespace isrlu::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// 1e-8 and 1e30 have the loop with a multiplication by alpha, the others the one without.
const std::vector<double> alphas = {0.70832, 1, 3, 0.1, 1e-5, 1e6, 1e-8, 1e30};

}  // namespace

TEST(sisrlu_scales_are_those_of_the_closed_form)
{
    // g = sqrt(pi) s exp(s^2) erfc(s), s = 1 / sqrt(2 alpha): beta = 1 / g, lambda^-2 = 1/2 + (1 - g) / (2 alpha g^2)
    for (const double alpha : {0.1, 0.5, 0.70832, 1.0, 3.0, 100.0, 1e6}) {
        const long double s = 1 / std::sqrt(2.0L * alpha), pi = 3.14159265358979323846L;
        const long double g = std::sqrt(pi) * s * std::exp(s * s) * std::erfc(s);
        const long double lambda = 1 / std::sqrt(0.5L + (1 - g) / (2 * alpha * g * g));
        const SisrluScales scales = sisrlu_scales(alpha);
        CHECK(std::fabs(scales.positive / lambda - 1) < 4e-15, "alpha ", alpha, ": ", scales.positive);
        CHECK(std::fabs(scales.negative * g / lambda - 1) < 4e-15, "alpha ", alpha, ": ", scales.negative);
    }
    const SisrluScales identity = sisrlu_scales(0), almost = sisrlu_scales(1e-300);
    CHECK(identity.positive == 1 && identity.negative == 1, identity.positive, ", ", identity.negative);
    CHECK(std::fabs(almost.positive - 1) < 1e-15 && std::fabs(almost.negative - 1) < 1e-15, almost.negative);
}

TEST(sisrlu_of_special_numbers)
{
    for (const Case& c : cases(kernels, Function::sisrlu))
        for (const double alpha : alphas) {
            const double most = largest(c.type), tiny = least_subnormal(c.type), a = c.rounded(alpha);
            const Array x(c.type, {0.0, -0.0, std::nan(""), infinity, -infinity, -most, 3 * tiny, -3 * tiny, 1, -1});
            Array y(c.type, x.size()), slopes(c.type, x.size());
            c.run().forward(x.at(), y.at(), x.size(), alpha);
            c.run().derivative(x.at(), slopes.at(), x.size(), alpha);
            const auto where = [&](std::size_t i) {
                return text(c.name(), ", alpha ", alpha, ", x ", x.get(i), ": ", y.get(i), ", f' ", slopes.get(i));
            };
            for (const std::size_t i : {0, 1}) CHECK(y.bits(i) == x.bits(i), where(i));
            CHECK(std::isnan(y.get(2)) && std::isnan(slopes.get(2)), where(2));
            CHECK(y.get(3) == infinity, where(3));
            CHECK(slopes.get(4) == 0, where(4));
            for (std::size_t i = 4; i < x.size(); ++i) {
                const long double exact = value(c.function, x.get(i), a);
                CHECK(std::fabs(y.get(i) - exact) <= value_error(c, exact), where(i), " for ", exact);
            }
            for (std::size_t i = 0; i < x.size(); ++i) {
                const long double exact = slope(c.function, x.get(i), a);
                if (i != 2) CHECK(std::fabs(slopes.get(i) - exact) <= slope_error(c, exact), where(i), " for ", exact);
            }
        }
}

TEST(sisrlu_with_alpha_0_is_the_identity)
{
    for (const Case& c : cases(kernels, Function::sisrlu)) {
        const Array x(c.type, {-infinity, -largest(c.type), -3, -least_subnormal(c.type), -0.0, 0.0, 2, infinity});
        Array y(c.type, x.size()), slopes(c.type, x.size());
        c.run().forward(x.at(), y.at(), x.size(), 0);
        c.run().derivative(x.at(), slopes.at(), x.size(), 0);
        for (std::size_t i = 0; i < x.size(); ++i)
            CHECK(y.bits(i) == x.bits(i) && slopes.get(i) == 1, c.name(), ", x ", x.get(i), ": ", y.get(i));
    }
}

TEST(sisrlu_backward_from_special_outputs)
{
    for (const Case& c : cases(kernels, Function::sisrlu)) {
        const SisrluScales scales = sisrlu_scales(1);
        const double beyond = -1.01 * scales.negative;  // more than the saturation: no root of a negative number
        const Array y(c.type, {std::nan(""), beyond, 0.0, -0.0, 0.5}), grad(c.type, y.size(), 1);
        Array out(c.type, y.size());
        c.run().backward_from_output(y.at(), grad.at(), out.at(), y.size(), 1, nullptr);
        CHECK(std::isnan(out.get(0)), c.name(), ": ", out.get(0));
        CHECK(out.get(1) == 0, c.name(), ": ", out.get(1));
        for (const std::size_t i : {2, 3, 4})
            CHECK(out.get(i) == decode(c.type, encode(c.type, static_cast<float>(scales.positive))) ||
                      out.get(i) == scales.positive,
                  c.name(), ", y ", y.get(i), ": ", out.get(i));
    }
}

}  // namespace isrlu::testing
