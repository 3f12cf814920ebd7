// The numeric rules, for every function, type and method: what is exact is exact, the rest is within the method's error.
#include <cmath>
#include <limits>

#include "reference.hpp"

namespace isrlu::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::nan("");
const std::vector<double> alphas = {1, 3, 0.1, 1e-6, 1e6, 1e-30, 1e30};  // not 0

// One kernel on a few numbers, once with one alpha and once with an alpha per element: f and f' both.
struct Results {
    Array x, value, value_lanes, slope, slope_lanes;
    Results(const Case& c, const std::vector<double>& inputs, double alpha)
        : x(c.type, inputs), value(c.type, x.size()), value_lanes(value), slope(value), slope_lanes(value)
    {
        const std::size_t n = x.size();
        const Array each(compute_type(c.type), n, alpha);
        c.run().forward(x.at(), value.at(), n, alpha);
        c.run().forward_lanes(x.at(), value_lanes.at(), n, each.at());
        c.run().derivative(x.at(), slope.at(), n, alpha);
        c.run().derivative_lanes(x.at(), slope_lanes.at(), n, each.at());
    }
};

// Calls f(case, where, index, values, slopes) for every element of both ways to give alpha.
template <class F> void each_result(const std::vector<Case>& list, const std::vector<double>& inputs, const std::vector<double>& alpha_list, F f)
{
    for (const Case& c : list)
        for (const double alpha : alpha_list) {
            const Results r(c, inputs, alpha);
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                const std::string where = text(c.name(), ", alpha ", alpha, ", x ", r.x.get(i));
                f(c, alpha, where, r.x, r.value, r.slope, i);
                f(c, alpha, where + ", alpha per element", r.x, r.value_lanes, r.slope_lanes, i);
            }
        }
}

double alpha_of(const Case& c, double alpha) { return decode(compute_type(c.type), encode(compute_type(c.type), alpha)); }

void check_value(const Case& c, double alpha, const std::string& where, double x, double got)
{
    const long double exact = value(c.function, x, alpha_of(c, alpha));
    if (std::fabs(exact) > largest(c.type)) CHECK(got == std::copysign(infinity, x), where, ": ", got, " for ", exact);
    else CHECK(std::fabs(got - exact) <= value_error(c, exact), where, ": ", got, " for ", exact);
}
void check_slope(const Case& c, double alpha, const std::string& where, double x, double got)
{
    const long double exact = slope(c.function, x, alpha_of(c, alpha));
    CHECK(std::fabs(got - exact) <= slope_error(c, exact), where, ": f' ", got, " for ", exact);
}

}  // namespace

TEST(positive_numbers_pass_bit_for_bit)
{
    for (int t = 0; t < type_count; ++t) {
        std::vector<double> inputs = {0.0, -0.0, 0.1, 1, 1.5, 100, infinity, largest(Type(t)), least_subnormal(Type(t)), 3 * least_subnormal(Type(t))};
        std::vector<Case> list;
        for (const Case& c : cases(kernels, Function::isrlu))
            if (c.type == Type(t)) list.push_back(c);
        each_result(list, inputs, alphas, [](const Case&, double, const std::string& where, const Array& x, const Array& y, const Array& slope, std::size_t i) {
            CHECK(y.bits(i) == x.bits(i), where, ": ", y.get(i));
            CHECK(slope.get(i) == 1, where, ": f' ", slope.get(i));
        });
    }
}

TEST(negative_zero_stays)
{
    each_result(cases(kernels, Function::isru), {-0.0, 0.0}, alphas, [](const Case& c, double alpha, const std::string& where, const Array& x, const Array& y, const Array& slope, std::size_t i) {
        CHECK(y.bits(i) == x.bits(i), where, ": ", y.get(i));
        check_slope(c, alpha, where, 0, slope.get(i));
    });
}

TEST(nan_stays)
{
    std::vector<double> with_zero = alphas;
    with_zero.push_back(0);
    each_result(cases(kernels), {nan, -nan}, with_zero, [](const Case& c, double alpha, const std::string& where, const Array&, const Array& y, const Array& slope, std::size_t i) {
        CHECK(std::isnan(y.get(i)), where, ": ", y.get(i));
        CHECK(std::isnan(slope.get(i)), where, ": f' ", slope.get(i), c.name(), alpha);
    });
}

TEST(alpha_0_is_the_identity)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f)) {
            const std::vector<double> inputs = {-infinity, -largest(c.type), -3, -least_subnormal(c.type), -0.0, 0.0, 2, largest(c.type), infinity};
            const auto identity = [](const Case&, double, const std::string& where, const Array& x, const Array& y, const Array& slope, std::size_t i) {
                CHECK(y.bits(i) == x.bits(i), where, ": ", y.get(i));
                CHECK(slope.get(i) == 1, where, ": f' ", slope.get(i));
            };
            each_result({c}, inputs, {0.0, -0.0}, identity);
            if (compute_type(c.type) == Type::float32) each_result({c}, inputs, {1e-60}, identity);  // 0 in float32
        }
}

TEST(saturates_at_infinity)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f)) {
            std::vector<double> inputs = {-infinity, -largest(c.type)};
            if (f == Function::isru) inputs.insert(inputs.end(), {infinity, largest(c.type)});
            each_result({c}, inputs, alphas, [](const Case& c, double alpha, const std::string& where, const Array& x, const Array& y, const Array& slope, std::size_t i) {
                check_value(c, alpha, where, x.get(i), y.get(i));
                check_slope(c, alpha, where, x.get(i), slope.get(i));
                if (std::isinf(x.get(i))) CHECK(slope.get(i) == 0, where, ": f' ", slope.get(i));
            });
        }
}

TEST(sigmoid_reaches_0_and_1)
{
    each_result(cases(kernels, Function::isru_sigmoid), {-infinity, infinity, -1e30, 1e30, 0, -0.0}, {1}, [](const Case& c, double, const std::string& where, const Array& x, const Array& y, const Array& slope, std::size_t i) {
        check_value(c, 1, where, x.get(i), y.get(i));
        check_slope(c, 1, where, x.get(i), slope.get(i));
        const bool exact = c.method == Method::full || c.method == Method::ieee;
        if (exact && x.get(i) == -infinity) CHECK(y.get(i) == 0, where, ": ", y.get(i));
        if (exact && x.get(i) == infinity) CHECK(y.get(i) == 1, where, ": ", y.get(i));
    });
}

TEST(subnormal_numbers_are_not_flushed)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f)) {
            std::vector<double> inputs;
            for (const double k : {1, 2, 3, 100, 1023, 127}) inputs.insert(inputs.end(), {-k * least_subnormal(c.type), k * least_subnormal(c.type)});
            each_result({c}, inputs, alphas, [](const Case& c, double alpha, const std::string& where, const Array& x, const Array& y, const Array& slope, std::size_t i) {
                CHECK(y.get(i) != 0 || alpha > 1e6, where);  // beyond it float16's subnormal numbers are well inside saturation
                check_value(c, alpha, where, x.get(i), y.get(i));
                check_slope(c, alpha, where, x.get(i), slope.get(i));
            });
        }
}

TEST(isru_is_odd)
{
    for (const Case& c : cases(kernels, Function::isru)) {
        const std::vector<double> inputs = samples(c.type, 1000);
        std::vector<double> mirrored = inputs;
        for (double& x : mirrored) x = -x;
        const Results right(c, inputs, 3), left(c, mirrored, 3);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            CHECK(right.value.get(i) == -left.value.get(i), c.name(), ", x ", inputs[i]);
            CHECK(same(right.slope, i, left.slope, i), c.name(), ", x ", inputs[i]);
        }
    }
}

TEST(rsqrt_of_every_kind_of_number)
{
    for (int t = 0; t < type_count; ++t)
        for (int m = 0; m < method_count; ++m) {
            const Type type{t};
            const double tiny = least_subnormal(type);
            const Array x(type, {0.0, -0.0, infinity, -infinity, -1, -tiny, nan, -nan, -largest(type), tiny, 3 * tiny, 100 * tiny, 1, 2, 4, largest(type)});
            Array y(type, x.size());
            kernels.rsqrt[t][m](x.at(), y.at(), x.size(), 0);
            const auto where = [&](std::size_t i) { return text("rsqrt ", type_names[t], " ", method_names[m], ", x ", x.get(i), ": ", y.get(i)); };
            CHECK(y.get(0) == infinity, where(0));
            CHECK(y.get(1) == -infinity, where(1));
            CHECK(y.get(2) == 0 && !std::signbit(y.get(2)), where(2));
            for (std::size_t i = 3; i < 9; ++i) CHECK(std::isnan(y.get(i)), where(i));
            for (std::size_t i = 9; i < x.size(); ++i) {
                const long double exact = 1 / std::sqrt(static_cast<long double>(x.get(i)));
                CHECK(std::fabs(y.get(i) - exact) <= value_error({kernels, Function::isru, type, Method(m)}, exact), where(i), " for ", exact);
            }
        }
}

}  // namespace isrlu::testing
