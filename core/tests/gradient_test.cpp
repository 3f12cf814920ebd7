// Backward passes from the input and from the output, against the derivative; and the gradient of alpha.
#include <cmath>
#include <limits>

#include "tests/reference.hpp"

namespace isrlu::testing {
namespace {

constexpr std::size_t length = 5003;  // elements: several of the kernels' blocks of 1024, and a partial batch

struct Data {
    Array x, grad, out;
    explicit Data(Type type) : x(type, length), grad(type, length), out(type, length)
    {
        for (std::size_t i = 0; i < length; ++i) {
            x.set(i, 5 * std::sin(static_cast<double>(i)));
            grad.set(i, 2 * std::cos(static_cast<double>(7 * i)));
        }
    }
};

// The cases of float32 and float64. 16-bit results are float32's, rounded: half_test.cpp.
std::vector<Case> unrounded_cases(const Kernels& kernels)
{
    std::vector<Case> list;
    for (const Case& c : cases(kernels))
        if (c.type == compute_type(c.type)) list.push_back(c);
    return list;
}

double epsilon(const Case& c) { return ulp(compute_type(c.type), 1); }

}  // namespace

TEST(backward_is_gradient_times_derivative)
{
    for (const Case& c : unrounded_cases(kernels))
        for (const double alpha : {1.0, 0.3, 0.0}) {
            Data d(c.type);
            Array slopes(c.type, length);
            c.run().derivative(d.x.at(), slopes.at(), length, alpha);
            c.run().backward(d.x.at(), d.grad.at(), d.out.at(), length, alpha, nullptr);
            for (std::size_t i = 0; i < length; ++i)
                CHECK(d.out.bits(i) == encode(c.type, d.grad.get(i) * slopes.get(i)), c.name(), ", alpha ", alpha,
                      ", x ", d.x.get(i), ": ", d.out.get(i));
        }
}

TEST(backward_from_output_needs_no_input)
{
    for (const Case& c : unrounded_cases(kernels)) {
        if (c.method != Method::full) continue;  // the kernel is the same for all methods: it has no inverse root
        for (const double alpha : {1.0, 0.3, 3.0}) {
            const double a = c.rounded(alpha);
            Data d(c.type);
            Array y(c.type, length);
            c.run().forward(d.x.at(), y.at(), length, alpha);
            c.run().backward_from_output(y.at(), d.grad.at(), d.out.at(), length, alpha, nullptr);
            for (std::size_t i = 0; i < length; ++i) {
                const double grad = d.grad.get(i);
                const long double of_y = grad * slope_from_output(c.function, y.get(i), a),
                                  of_x = grad * slope(c.function, d.x.get(i), a);
                CHECK(std::fabs(d.out.get(i) - of_y) <= 4 * epsilon(c) * std::fabs(grad), c.name(), ", alpha ", alpha,
                      ", y ", y.get(i), ": ", d.out.get(i), " for ", of_y);
                CHECK(std::fabs(d.out.get(i) - of_x) <= 8 * epsilon(c) * std::fabs(grad), c.name(), ", alpha ", alpha,
                      ", x ", d.x.get(i), ": ", d.out.get(i), " for ", of_x);
            }
        }
    }
}

TEST(backward_from_output_of_special_outputs)
{
    for (const Case& c : cases(kernels)) {
        if (c.function == Function::sisrlu) continue;  // it saturates elsewhere: sisrlu_test.cpp
        // f may round to a little more than 1/sqrt(alpha). The kernel must not take the root of a negative number.
        const double beyond = 1 + ulp(c.type, 1);
        const Array y(c.type, {std::nan(""), -1, -beyond, 0.0, -0.0, 0.5});
        const Array grad(c.type, y.size(), 1.5);
        Array out(c.type, y.size());
        c.run().backward_from_output(y.at(), grad.at(), out.at(), y.size(), 1, nullptr);
        CHECK(std::isnan(out.get(0)), c.name(), ": ", out.get(0));
        if (c.function == Function::isru_sigmoid) {
            CHECK(out.get(3) == 0, c.name(), ": ", out.get(3));
            CHECK(out.get(5) == 0.375, c.name(), ": ", out.get(5));
            continue;
        }
        for (const std::size_t i : {1, 2}) CHECK(out.get(i) == 0, c.name(), ", y ", y.get(i), ": ", out.get(i));
        for (const std::size_t i : {3, 4}) CHECK(out.get(i) == 1.5, c.name(), ", y ", y.get(i), ": ", out.get(i));
        if (c.function == Function::isrlu) CHECK(out.get(5) == 1.5, c.name(), ": ", out.get(5));
    }
}

TEST(gradient_of_alpha)
{
    for (const Function f : {Function::isrlu, Function::isru})
        for (const Case& c : cases(kernels, f))
            for (const double alpha : {1.0, 0.3, 0.0}) {
                const double a = c.rounded(alpha);
                Data d(c.type);
                const Array alphas(compute_type(c.type), length, alpha);
                Array sums(compute_type(c.type), length, 0.5), y(c.type, length);
                double sum = 2, from_output = 2;  // the kernels add to them
                c.run().backward(d.x.at(), d.grad.at(), d.out.at(), length, alpha, &sum);
                c.run().backward_per_element(d.x.at(), d.grad.at(), d.out.at(), length, alphas.at(), sums.at());
                c.run().forward(d.x.at(), y.at(), length, alpha);
                c.run().backward_from_output(y.at(), d.grad.at(), d.out.at(), length, alpha, &from_output);
                const double tolerance = 3.01 * root_bound(kernels, c.method).relative + 24 * epsilon(c);
                long double total = 2, total_y = 2, size = 2;
                for (std::size_t i = 0; i < length; ++i) {
                    const long double term = d.grad.get(i) * alpha_slope(f, d.x.get(i), a);
                    const long double out = y.get(i), term_y = f == Function::isrlu && out >= 0
                                                                   ? 0
                                                                   : -d.grad.get(i) * out * out * out / 2;
                    total += term, total_y += term_y, size += std::fabs(term);
                    CHECK(std::fabs(sums.get(i) - 0.5 - term) <= tolerance * std::fabs(term) + epsilon(c), c.name(),
                          ", alpha ", alpha, ", x ", d.x.get(i), ": ", sums.get(i) - 0.5, " for ", term);
                }
                CHECK(std::fabs(sum - total) <= tolerance * size, c.name(), ", alpha ", alpha, ": ", sum, " for ",
                      total);
                CHECK(std::fabs(from_output - total_y) <= tolerance * size, c.name(), ", alpha ", alpha, ": ",
                      from_output, " for ", total_y);
            }
}

TEST(gradient_of_alpha_where_f_is_flat)
{
    const double infinity = std::numeric_limits<double>::infinity();
    for (const Case& c : cases(kernels, Function::isrlu)) {
        const Array x(c.type, {0.0, -0.0, 3, infinity}), grad(c.type, x.size(), 1);
        Array out(c.type, x.size());
        double sum = 0;
        c.run().backward(x.at(), grad.at(), out.at(), x.size(), 1, &sum);
        CHECK(sum == 0, c.name(), ": ", sum);
    }
}

}  // namespace isrlu::testing
