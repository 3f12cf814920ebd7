#include "tests/reference.hpp"

#include "activation/sisrlu_scales.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace isrlu::testing {
namespace {

struct Format {
    int digits;  // bits of the significand, including the hidden bit
    int least;  // exponent of the smallest subnormal number
    int most;  // exponent of the largest power of two
};
Format format(Type type)
{
    switch (type) {
    case Type::float32:
        return {24, -149, 127};
    case Type::float64:
        return {53, -1074, 1023};
    case Type::float16:
        return {11, -24, 15};
    default:
        return {8, -133, 127};
    }
}

// 16-bit formats by their definition: sign, exponent, fraction.
double decode_small(Format f, std::uint64_t bits)
{
    const int fraction_bits = f.digits - 1;
    const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
    const int exponent = static_cast<int>((bits & 0x7fff) >> fraction_bits), special = (1 << (15 - fraction_bits)) - 1;
    double magnitude;
    if (exponent == special) magnitude = fraction != 0 ? std::nan("") : HUGE_VAL;
    else if (exponent == 0) magnitude = std::ldexp(fraction, f.least);
    else magnitude = std::ldexp(fraction + std::ldexp(1, fraction_bits), f.least + exponent - 1);
    return bits & 0x8000 ? -magnitude : magnitude;
}

std::uint64_t encode_small(Format f, double value)
{
    const int fraction_bits = f.digits - 1;
    const std::uint64_t sign = std::signbit(value) ? 0x8000 : 0,
                        infinity = std::uint64_t((1 << (15 - fraction_bits)) - 1) << fraction_bits;
    if (std::isnan(value)) return sign | infinity | std::uint64_t(1) << (fraction_bits - 1);
    if (std::isinf(value)) return sign | infinity;
    if (value == 0) return sign;
    int exponent;
    std::frexp(value, &exponent);
    const int place = std::max(exponent - f.digits, f.least);
    // Consecutive numbers have consecutive bit patterns: a carry out of the fraction increments the exponent, up to
    // infinity.
    const auto units = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(std::fabs(value), -place)));
    const std::uint64_t bits = units + (static_cast<std::uint64_t>(place - f.least) << fraction_bits);
    return sign | (bits > infinity ? infinity : bits);
}

// Such a sigmoid has an absolute error bound only.
constexpr bool cancels(const Case& c)
{
    return c.function == Function::isru_sigmoid && c.method != Method::full && c.method != Method::ieee;
}

// `bound` for results of magnitude `scale` in the type of the arithmetic, plus one rounding to the type in memory.
double error(const Case& c, ErrorBound bound, long double exact, long double scale)
{
    const double computed = bound.relative * static_cast<double>(scale) + bound.ulps * ulp(compute_type(c.type), scale);
    return c.type == compute_type(c.type) ? computed : computed + 0.5 * ulp(c.type, std::fabs(exact) + computed);
}

// The factor of isrlu(x) in sisrlu(x). sisrlu_test.cpp checks the scales.
long double sisrlu_scale(long double x, long double alpha)
{
    const SisrluScales scales = sisrlu_scales(static_cast<double>(alpha));
    return x >= 0 ? scales.positive : scales.negative;
}

}  // namespace

double ulp(Type type, long double value)
{
    const Format f = format(type);
    if (value == 0 || !std::isfinite(value)) return std::ldexp(1, f.least);
    return std::ldexp(1, std::max(std::ilogb(value) - f.digits + 1, f.least));
}
double largest(Type type) { return std::ldexp(2 - std::ldexp(1, 1 - format(type).digits), format(type).most); }
double least_subnormal(Type type) { return std::ldexp(1, format(type).least); }

double decode(Type type, std::uint64_t bits)
{
    if (type == Type::float64) {
        double x;
        std::memcpy(&x, &bits, 8);
        return x;
    }
    if (type == Type::float32) {
        const auto low = static_cast<std::uint32_t>(bits);
        float x;
        std::memcpy(&x, &low, 4);
        return x;
    }
    return decode_small(format(type), bits);
}
std::uint64_t encode(Type type, double value)
{
    if (type == Type::float64) {
        std::uint64_t bits;
        std::memcpy(&bits, &value, 8);
        return bits;
    }
    if (type == Type::float32) {
        const auto x = static_cast<float>(value);
        std::uint32_t bits;
        std::memcpy(&bits, &x, 4);
        return bits;
    }
    return encode_small(format(type), value);
}

Array::Array(Type type, std::size_t n, double fill) : type_(type), width_(type_sizes[int(type)]), bytes_(n * width_)
{
    for (std::size_t i = 0; i < n; ++i) set(i, fill);
}
Array::Array(Type type, const std::vector<double>& values) : Array(type, values.size())
{
    for (std::size_t i = 0; i < values.size(); ++i) set(i, values[i]);
}
// Little-endian, like every CPU that the kernels are built for.
std::uint64_t Array::bits(std::size_t i) const
{
    std::uint64_t bits = 0;
    std::memcpy(&bits, at(i), width_);
    return bits;
}
void Array::set_bits(std::size_t i, std::uint64_t bits) { std::memcpy(at(i), &bits, width_); }

bool same(const Array& a, std::size_t i, const Array& b, std::size_t j)
{
    return a.bits(i) == b.bits(j) || (std::isnan(a.get(i)) && std::isnan(b.get(j)));
}

long double value(Function f, long double x, long double alpha)
{
    if (f == Function::sisrlu) return sisrlu_scale(x, alpha) * value(Function::isrlu, x, alpha);
    if (f == Function::isru_sigmoid) {  // (1 + isru(x/2)) / 2, without its cancellation at x < 0
        const long double h = x / 2, root = std::sqrt(1 + h * h);
        if (std::isinf(x)) return x > 0;
        return x < 0 ? 1 / (2 * root * (root - h)) : (1 + h / root) / 2;
    }
    if ((f == Function::isrlu && x >= 0) || alpha == 0) return x;
    if (std::isinf(x)) return std::copysign(1 / std::sqrt(alpha), x);
    return x / std::sqrt(1 + alpha * x * x);
}
long double slope(Function f, long double x, long double alpha)
{
    if (f == Function::isru_sigmoid) return slope(Function::isru, x / 2, 1) / 4;
    if (f == Function::sisrlu) return sisrlu_scale(x, alpha) * slope(Function::isrlu, x, alpha);
    if ((f == Function::isrlu && x >= 0) || alpha == 0) return std::isnan(x) ? x : 1;
    const long double root = 1 / std::sqrt(1 + alpha * x * x);
    return root * root * root;
}
long double slope_from_output(Function f, long double y, long double alpha)
{
    if (f == Function::isrlu && y >= 0) return 1;
    if (f == Function::sisrlu) {
        const long double scale = sisrlu_scale(y, alpha);
        return scale * slope_from_output(Function::isrlu, y / scale, alpha);
    }
    const long double s = f == Function::isru_sigmoid ? 4 * y * (1 - y) : 1 - alpha * y * y;
    return (f == Function::isru_sigmoid ? 0.25L : 1) * (s > 0 ? s * std::sqrt(s) : 0);
}
long double alpha_slope(Function f, long double x, long double alpha)
{
    const long double y = value(f, x, alpha);
    return f == Function::isrlu && x >= 0 ? 0 : -y * y * y / 2;
}

std::string Case::name() const
{
    return text(function_names[int(function)], " ", type_names[int(type)], " ", method_names[int(method)]);
}
std::vector<Case> cases(const Kernels& kernels, Function function)
{
    std::vector<Case> list;
    for (int t = 0; t < type_count; ++t)
        for (int m = 0; m < method_count; ++m) list.push_back({kernels, function, Type(t), Method(m)});
    return list;
}
std::vector<Case> cases(const Kernels& kernels)
{
    std::vector<Case> list;
    for (int f = 0; f < function_count; ++f)
        for (const Case& c : cases(kernels, Function(f))) list.push_back(c);
    return list;
}

double estimate_error(const Kernels& kernels)
{
    if (kernels.name == "scalar") return 0;  // square root and division
    if (kernels.name == "neon") return 0x1p-8;
    if (kernels.name == "avx512") return 0x1p-14;
    return std::exp2(-11.4);
}
ErrorBound root_bound(const Kernels& kernels, Method method)
{
    const auto newton = [](double e) { return 1.5 * e * e * (1 + e); };  // relative error after one step
    const double e = estimate_error(kernels);
    switch (method) {
    case Method::approx:
        return {e, 2};
    case Method::newton1:
        return {newton(e), 3};
    case Method::newton2:
        return {newton(newton(e)), 3};
    case Method::kinney:
        return {0.0017524, 3};
    case Method::table:
        return {0x1p-12, 2};
    default:
        return {0, 2};
    }
}
double value_error(const Case& c, long double exact)
{
    ErrorBound bound = root_bound(c.kernels, c.method);
    if (c.method == Method::full && c.function == Function::sisrlu) bound.ulps = 4;
    else if (c.method == Method::full && c.function != Function::isru_sigmoid) bound.ulps = 1.5;
    else bound.ulps += c.function == Function::sisrlu ? 4 : 2;
    return error(c, bound, exact, cancels(c) ? 1 : std::fabs(exact));
}
double slope_error(const Case& c, long double exact)
{
    const ErrorBound bound = root_bound(c.kernels, c.method);
    const double scaling = c.function == Function::sisrlu ? 2 : 0;  // ulps
    // of the cube of the root
    return error(c, {3.01 * bound.relative, 3 * bound.ulps + 2 + scaling}, exact, std::fabs(exact));
}

std::vector<double> samples(Type type, std::size_t n)
{
    std::mt19937_64 random(1710);  // the paper is arXiv 1710.09967
    std::uniform_real_distribution<double> bend(-6, 6);
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) {
        double x = bend(random);
        if (i % 2) do
                x = decode(type, random());
            while (!std::isfinite(x));
        values[i] = decode(type, encode(type, x));
    }
    return values;
}

}  // namespace isrlu::testing
