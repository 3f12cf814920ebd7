// The rules of docs/accuracy.md for every function, type and method: special values are exact, other results are
// within the method's error bound.
#include <cmath>
#include <limits>

#include "tests/reference.hpp"

namespace isrlu::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::nan("");
const std::vector<double> alphas = {1, 3, 0.1, 1e-6, 1e6, 1e-30, 1e30};  // 0 has its own test

// f and f' of a few numbers, with a uniform alpha and with an alpha per element.
struct Results {
    Array x, value, value_per_element, slope, slope_per_element;
    Results(const Case& c, const std::vector<double>& inputs, double alpha)
        : x(c.type, inputs),
          value(c.type, x.size()),
          value_per_element(value),
          slope(value),
          slope_per_element(value)
    {
        const std::size_t n = x.size();
        const Array alphas(compute_type(c.type), n, alpha);
        c.run().forward(x.at(), value.at(), n, alpha);
        c.run().derivative(x.at(), slope.at(), n, alpha);
        if (!c.run().has_alpha()) return;
        c.run().forward_per_element(x.at(), value_per_element.at(), n, alphas.at());
        c.run().derivative_per_element(x.at(), slope_per_element.at(), n, alphas.at());
    }
};

// One element's result.
struct Result {
    const Case& c;
    double alpha;
    std::string where;
    const Array &inputs, &values, &slopes;
    std::size_t i;
    double x() const { return inputs.get(i); }
    double y() const { return values.get(i); }
    double slope() const { return slopes.get(i); }
    bool is_unchanged() const { return values.bits(i) == inputs.bits(i); }  // f(x) = x, bit for bit
};

// Calls f(Result) for every element, with a uniform alpha and with an alpha per element.
template <class F>
void each_result(const std::vector<Case>& list, const std::vector<double>& inputs,
                 const std::vector<double>& alpha_list, F f)
{
    for (const Case& c : list)
        for (const double alpha : alpha_list) {
            const Results r(c, inputs, alpha);
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                const std::string where = text(c.name(), ", alpha ", alpha, ", x ", r.x.get(i));
                f(Result{c, alpha, where, r.x, r.value, r.slope, i});
                if (c.run().has_alpha())
                    f(Result{c, alpha, where + ", alpha per element", r.x, r.value_per_element, r.slope_per_element,
                             i});
            }
        }
}

void check_value(const Result& r)
{
    const long double exact = value(r.c.function, r.x(), r.c.rounded(r.alpha));
    if (std::fabs(exact) > largest(r.c.type))
        CHECK(r.y() == std::copysign(infinity, r.x()), r.where, ": ", r.y(), " for ", exact);
    else CHECK(std::fabs(r.y() - exact) <= value_error(r.c, exact), r.where, ": ", r.y(), " for ", exact);
}
void check_slope(const Result& r)
{
    const long double exact = slope(r.c.function, r.x(), r.c.rounded(r.alpha));
    CHECK(std::fabs(r.slope() - exact) <= slope_error(r.c, exact), r.where, ": f' ", r.slope(), " for ", exact);
}
void check_identity(const Result& r)
{
    CHECK(r.is_unchanged(), r.where, ": ", r.y());
    CHECK(r.slope() == 1, r.where, ": f' ", r.slope());
}

}  // namespace

TEST(positive_numbers_pass_bit_for_bit)
{
    for (const Case& c : cases(kernels, Function::isrlu)) {
        const double tiny = least_subnormal(c.type);
        each_result({c}, {0.0, -0.0, 0.1, 1, 1.5, 100, infinity, largest(c.type), tiny, 3 * tiny}, alphas,
                    check_identity);
    }
}

TEST(negative_zero_stays)
{
    each_result(cases(kernels, Function::isru), {-0.0, 0.0}, alphas, [](const Result& r) {
        CHECK(r.is_unchanged(), r.where, ": ", r.y());
        check_slope(r);
    });
}

TEST(nan_stays)
{
    std::vector<double> with_zero = alphas;
    with_zero.push_back(0);
    each_result(cases(kernels), {nan, -nan}, with_zero, [](const Result& r) {
        CHECK(std::isnan(r.y()), r.where, ": ", r.y());
        CHECK(std::isnan(r.slope()), r.where, ": f' ", r.slope());
    });
}

TEST(alpha_0_is_the_identity)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f)) {
            const double most = largest(c.type);
            std::vector<double> zeros = {0.0, -0.0};
            if (compute_type(c.type) == Type::float32) zeros.push_back(1e-60);  // 0 in float32
            each_result({c}, {-infinity, -most, -3, -least_subnormal(c.type), -0.0, 0.0, 2, most, infinity}, zeros,
                        check_identity);
        }
}

TEST(infinite_alpha_counts_as_the_largest)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f)) {
            std::vector<double> beyond = {infinity};
            if (compute_type(c.type) == Type::float32) beyond.push_back(1e300);  // infinite in float32
            each_result({c}, {-infinity, -2, -0.0, 0.0, 2}, beyond, [f](const Result& r) {
                if (r.x() >= 0 && f == Function::isrlu) check_identity(r);
                else if (r.x() == 0) CHECK(r.is_unchanged(), r.where, ": ", r.y());
                else CHECK(std::fabs(r.y()) < 1e-18 && r.slope() == 0, r.where, ": ", r.y(), ", f' ", r.slope());
            });
        }
}

TEST(saturates_at_infinity)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f)) {
            std::vector<double> inputs = {-infinity, -largest(c.type)};
            if (f == Function::isru) inputs.insert(inputs.end(), {infinity, largest(c.type)});
            each_result({c}, inputs, alphas, [](const Result& r) {
                check_value(r);
                check_slope(r);
                if (std::isinf(r.x())) CHECK(r.slope() == 0, r.where, ": f' ", r.slope());
            });
        }
}

TEST(sigmoid_reaches_0_and_1)
{
    each_result(cases(kernels, Function::isru_sigmoid), {-infinity, infinity, -1e30, 1e30, 0, -0.0}, {1},
                [](const Result& r) {
                    check_value(r);
                    check_slope(r);
                    const bool exact = r.c.method == Method::full || r.c.method == Method::ieee;
                    if (exact && std::isinf(r.x())) CHECK(r.y() == (r.x() > 0), r.where, ": ", r.y());
                });
}

TEST(subnormal_numbers_are_not_flushed)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f)) {
            std::vector<double> inputs;
            for (const double k : {1, 2, 3, 100, 127, 1023})
                inputs.insert(inputs.end(), {-k * least_subnormal(c.type), k * least_subnormal(c.type)});
            each_result({c}, inputs, alphas, [](const Result& r) {
                // For alpha > 1e6, float16's subnormal inputs are saturated.
                CHECK(r.y() != 0 || r.alpha > 1e6, r.where);
                check_value(r);
                check_slope(r);
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
            const Array x(type, {0.0, -0.0, infinity, -infinity, -1, -tiny, nan, -nan, -largest(type), tiny, 3 * tiny,
                                 100 * tiny, 1, 2, 4, largest(type)});
            Array y(type, x.size());
            kernels.rsqrt[t][m](x.at(), y.at(), x.size(), 0);
            const auto where = [&](std::size_t i) {
                return text("rsqrt ", type_names[t], " ", method_names[m], ", x ", x.get(i), ": ", y.get(i));
            };
            CHECK(y.get(0) == infinity, where(0));
            CHECK(y.get(1) == -infinity, where(1));
            CHECK(y.get(2) == 0 && !std::signbit(y.get(2)), where(2));
            for (std::size_t i = 3; i < 9; ++i) CHECK(std::isnan(y.get(i)), where(i));
            for (std::size_t i = 9; i < x.size(); ++i) {
                const long double exact = 1 / std::sqrt(static_cast<long double>(x.get(i)));
                CHECK(std::fabs(y.get(i) - exact) <= value_error({kernels, Function::isru, type, Method(m)}, exact),
                      where(i), " for ", exact);
            }
        }
}

}  // namespace isrlu::testing
