// DyISRU on every instruction set: values and gradients against long double, for row sizes around the number of lanes,
// on any number of threads.
#include <cmath>
#include <limits>

#include "norm/norm_layer.hpp"
#include "tests/reference.hpp"
#include "tests/threads.hpp"

namespace isrlu::testing {
namespace {

constexpr Type types[] = {Type::float32, Type::float64, Type::float16, Type::bfloat16};

struct Layer {
    Type type;
    std::size_t rows, channels;
    double alpha, shift;
    Array x{type, rows * channels}, grad{x}, weight{type, channels}, bias{weight};

    Layer(Type type, std::size_t rows, std::size_t channels, double alpha, double shift)
        : type(type),
          rows(rows),
          channels(channels),
          alpha(decode(type, encode(type, alpha))),
          shift(decode(type, encode(type, shift)))
    {
        for (std::size_t i = 0; i < x.size(); ++i)
            x.set(i, static_cast<double>(i * 37 % 1009) / 100 - 5),
                grad.set(i, static_cast<double>(i * 13 % 101) / 50 - 0.7);
        for (std::size_t c = 0; c < channels; ++c)
            weight.set(c, 1 - static_cast<double>(c % 5) / 2), bias.set(c, static_cast<double>(c % 3) - 1);
    }
    NormLayer on(const Kernels& k) const
    {
        return {norm_kernels(k.name), type, rows, channels, {weight.at(), type}, {bias.at(), type}, alpha, shift};
    }
    std::string name() const { return text(type_names[int(type)], " [", rows, ", ", channels, "]"); }
};

struct Outcome {
    Array y, grad_x;
    std::vector<double> weight, bias;
    NormGradients sums;

    Outcome(const Kernels& k, const Layer& t, int threads)
        : y(t.type, t.x.size()),
          grad_x(y),
          weight(t.channels),
          bias(t.channels),
          sums{weight.data(), bias.data(), 0, 0}
    {
        const Threads scope(threads);
        norm_forward(t.on(k), t.x.at(), y.at());
        norm_backward(t.on(k), t.x.at(), t.grad.at(), grad_x.at(), sums);
    }
};

void compare(const Kernels& k, const Layer& t)
{
    const Outcome found(k, t, 0);
    const double epsilon = ulp(compute_type(t.type), 1), wide = t.type == compute_type(t.type) ? 0 : 0.5;
    std::vector<long double> weight(t.channels), bias(t.channels);
    long double alpha = 0, shift = 0, terms = 0;
    for (std::size_t i = 0; i < t.x.size(); ++i) {
        const std::size_t c = i % t.channels;
        const long double x = t.x.get(i), g = t.grad.get(i), w = t.weight.get(c), u = t.alpha * x + t.shift;
        const long double r = 1 / std::sqrt(1 + u * u), f = u * r, slope = r * r * r, exact = w * f + t.bias.get(c);
        const long double size = std::fabs(w) * (std::fabs(f) + slope * (std::fabs(t.alpha * x) + std::fabs(t.shift))) +
                                 std::fabs(static_cast<long double>(t.bias.get(c)));
        const auto allowed = [&](long double scale, long double value, double ulps) {
            return ulps * epsilon * static_cast<double>(scale) + wide * ulp(t.type, value) * 1.001;
        };
        CHECK(std::fabs(found.y.get(i) - exact) <= allowed(size, exact, 3), t.name(), " y ", i, ": ", found.y.get(i));
        const long double grad_x = g * w * t.alpha * slope;
        const long double grad_size = std::fabs(g * w * t.alpha) * slope * 4;
        CHECK(std::fabs(found.grad_x.get(i) - grad_x) <= allowed(grad_size, grad_x, 8) + 1e-300, t.name(), " grad ", i,
              ": ", found.grad_x.get(i), " ", static_cast<double>(grad_x));
        weight[c] += g * f, bias[c] += g, alpha += g * w * slope * x, shift += g * w * slope;
        terms += std::fabs(g * w) * slope * (1 + std::fabs(x));
    }
    const double each = 30 * epsilon * static_cast<double>(t.rows);  // |g f| <= 2
    for (std::size_t c = 0; c < t.channels; ++c) {
        CHECK(std::fabs(found.weight[c] - weight[c]) <= each, t.name(), " weight ", c, ": ", found.weight[c]);
        CHECK(std::fabs(found.bias[c] - bias[c]) <= each, t.name(), " bias ", c, ": ", found.bias[c]);
    }
    const double all = 30 * epsilon * static_cast<double>(terms);
    CHECK(std::fabs(found.sums.alpha - alpha) <= all, t.name(), " alpha: ", found.sums.alpha);
    CHECK(std::fabs(found.sums.shift - shift) <= all, t.name(), " shift: ", found.sums.shift);
}

}  // namespace

TEST(norm_values_and_gradients_are_right)
{
    for (const Type type : types)
        for (const std::size_t channels : {1, 3, 16, 17, 48, 100, 1040})
            for (const std::size_t rows : {1, 6, 70}) compare(kernels, Layer(type, rows, channels, 0.75, -0.5));
}

TEST(norm_is_the_same_on_any_number_of_threads)
{
    for (const Type type : types)
        for (const std::size_t channels : {3, 100, 768}) {
            const Layer t(type, 120000 / channels + 1, channels, 0.75, -0.5);
            const Outcome one(kernels, t, 0);
            for (const int threads : {2, 3, 7}) {
                const Outcome other(kernels, t, threads);
                CHECK(one.y == other.y && one.grad_x == other.grad_x, t.name(), " threads ", threads);
                CHECK(one.weight == other.weight && one.bias == other.bias, t.name(), " threads ", threads);
                CHECK(one.sums.alpha == other.sums.alpha && one.sums.shift == other.sums.shift, t.name());
            }
        }
}

TEST(norm_of_extreme_inputs)
{
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    for (const Type type : types) {
        const double top = largest(type);
        const std::vector<double> x{infinity, -infinity, top, -top, nan, least_subnormal(type)};
        for (const double alpha : {1.0, -1.0, 0.0})
            for (const double shift : {0.0, type == Type::float16 ? 1.0 : 1e30, -1.0}) {
                Layer t(type, 1, x.size(), alpha, shift);
                t.x = Array(type, x), t.weight = Array(type, x.size(), 1), t.bias = Array(type, x.size(), 0);
                const Outcome found(kernels, t, 0);
                const auto sign = [&](double at) { return alpha * at + t.shift > 0 ? 1.0 : -1.0; };
                if (alpha != 0)
                    for (const std::size_t i : {0, 1, 2, 3})
                        CHECK(found.y.get(i) == sign(std::clamp(x[i], -1e300, 1e300)), t.name(), " ", x[i], " alpha ",
                              alpha, " shift ", t.shift, ": ", found.y.get(i));
                else CHECK(found.y.get(0) == found.y.get(5), t.name(), " ", found.y.get(0));
                CHECK(std::isnan(found.y.get(4)) && std::isnan(found.grad_x.get(4)), t.name());
                if (alpha == 1 && shift == 0) CHECK(found.y.get(5) == x[5], t.name(), " ", found.y.get(5));
            }
    }
}

}  // namespace isrlu::testing
