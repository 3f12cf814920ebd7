// Method `full` keeps its error bound for every estimate that the vendors' documentation allows, not only for the
// estimate of this CPU. The formula runs on a model of a batch whose estimate of 1/sqrt(d) has up to the largest
// documented error. This covers instruction sets that this CPU does not have.
#include <cmath>
#include <cstring>
#include <random>

#include <xsimd/xsimd.hpp>

namespace isrlu::testing {
namespace {

// Models of instruction sets. The base class determines how many correction terms the formula takes. estimate_error:
// the largest documented relative error of the estimate. fused: whether fma rounds once.
struct Avx512 : xsimd::avx512f {
    static constexpr double estimate_error = 0x1p-14;
    static constexpr bool fused = true;
};
struct Avx2 : xsimd::avx2 {
    static constexpr double estimate_error = 1.5 * 0x1p-12;
    static constexpr bool fused = true;
};
struct Sse2 : xsimd::sse2 {
    static constexpr double estimate_error = 1.5 * 0x1p-12;
    static constexpr bool fused = false;
};
struct Neon {
    static constexpr double estimate_error = 0x1p-8;
    static constexpr bool fused = true;
};

double deviation = 0;  // of the estimate, in units of estimate_error

// A batch with one lane.
template <class T, class Isa> struct Model {
    using value_type = T;
    using arch_type = Isa;
    static constexpr std::size_t size = 1;
    T v{};
    Model() = default;
    explicit Model(T value) : v(value) {}

    friend Model operator-(Model a) { return Model(-a.v); }
    friend Model operator+(Model a, Model b) { return Model(a.v + b.v); }
    friend Model operator-(Model a, Model b) { return Model(a.v - b.v); }
    friend Model operator*(Model a, Model b) { return Model(a.v * b.v); }
    friend Model operator/(Model a, Model b) { return Model(a.v / b.v); }
    friend Model operator>>(Model a, int n) { return Model(a.v >> n); }
    friend Model operator<<(Model a, int n) { return Model(a.v << n); }
    friend bool operator<(Model a, Model b) { return a.v < b.v; }
    friend bool operator>=(Model a, Model b) { return a.v >= b.v; }
    friend bool operator==(Model a, Model b) { return a.v == b.v; }
    friend Model fma(Model a, Model b, Model c)
    {
        return Model(Isa::fused ? std::fma(a.v, b.v, c.v) : a.v * b.v + c.v);
    }
    friend Model fnma(Model a, Model b, Model c) { return fma(-a, b, c); }
    friend Model select(bool mask, Model a, Model b) { return mask ? a : b; }
    friend Model sqrt(Model a) { return Model(std::sqrt(a.v)); }
    friend Model at_least(Model limit, Model x) { return x < limit ? limit : x; }
    friend Model at_most(Model limit, Model x) { return limit < x ? limit : x; }
    friend Model negative_within(Model limit, Model x) { return at_most(Model(0), at_least(-limit, x)); }
};

}  // namespace
}  // namespace isrlu::testing

// Functions that the kernels' headers call with xsimd's namespace.
namespace xsimd {
template <class T, class Isa> static isrlu::testing::Model<T, Isa> rsqrt(isrlu::testing::Model<T, Isa> d)
{
    return isrlu::testing::Model<T, Isa>(
        static_cast<T>((1 + isrlu::testing::deviation * Isa::estimate_error) / std::sqrt(static_cast<double>(d.v))));
}
template <class To, class T, class Isa>
static isrlu::testing::Model<To, Isa> bitwise_cast(isrlu::testing::Model<T, Isa> a)
{
    isrlu::testing::Model<To, Isa> b;
    std::memcpy(&b.v, &a.v, sizeof b.v);
    return b;
}
}  // namespace xsimd

#include "simd/batch.hpp"

namespace isrlu {
namespace {
template <class T> struct vec_of<T, testing::Avx512> {
    using type = testing::Model<T, testing::Avx512>;
};
template <class T> struct vec_of<T, testing::Avx2> {
    using type = testing::Model<T, testing::Avx2>;
};
template <class T> struct vec_of<T, testing::Sse2> {
    using type = testing::Model<T, testing::Sse2>;
};
template <class T> struct vec_of<T, testing::Neon> {
    using type = testing::Model<T, testing::Neon>;
};
}  // namespace
}  // namespace isrlu

#include "activation/functions/isru.hpp"
#include "isa/dispatch.hpp"
#include "tests/reference.hpp"

namespace isrlu::testing {
namespace {

template <class T, class Isa> void check_estimates(const char* name)
{
    using V = Model<T, Isa>;
    const Type type = sizeof(T) == 8 ? Type::float64 : Type::float32;
    const Case c{kernels_named("scalar"), Function::isru, type, Method::full};
    std::mt19937 random(3);
    std::uniform_real_distribution<double> within(-1, 1);
    for (const double x : samples(type, 4000))
        for (const double alpha : {1.0, 3.0, 0.1}) {
            const T a = static_cast<T>(alpha);
            const long double exact = value(c.function, x, a), exact_slope = slope(c.function, x, a);
            for (const double off : {-1.0, 1.0, within(random)}) {
                deviation = off;
                V unused;
                const Alpha<V> model_alpha{V(a)};
                const V input(static_cast<T>(x));
                const double got =
                    Formula<Function::isru>::forward<Method::full, AlphaMode::uniform>(input, model_alpha).v;
                const double got_slope = Formula<Function::isru>::backward<Method::full, AlphaMode::uniform>(
                                             input, V(1), model_alpha, unused)
                                             .v;
                const auto where = [&] {
                    return text(name, " ", type_names[int(type)], ", alpha ", alpha, ", x ", x, ", estimate off by ",
                                off, " times the documented error: ");
                };
                CHECK(std::fabs(got - exact) <= value_error(c, exact), where(), got, " for ", exact);
                CHECK(std::fabs(got_slope - exact_slope) <= slope_error(c, exact_slope), where(), "f' ", got_slope,
                      " for ", exact_slope);
            }
        }
}

}  // namespace

TEST_ONCE(full_keeps_its_bound_with_every_documented_estimate)
{
    check_estimates<float, Avx512>("avx512");
    check_estimates<float, Avx2>("avx2");
    check_estimates<float, Sse2>("sse2");
    check_estimates<float, Neon>("neon");
    check_estimates<double, Avx512>("avx512");
    check_estimates<double, Avx2>("avx2");
    check_estimates<double, Sse2>("sse2");
    check_estimates<double, Neon>("neon");
}

}  // namespace isrlu::testing
