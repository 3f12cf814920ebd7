// float16 and bfloat16: each of the 65,536 inputs gives the float32 result, rounded once.
#include <cmath>
#include <random>

#include "simd/half.hpp"
#include "tests/reference.hpp"

namespace isrlu::testing {
namespace {

constexpr std::size_t count = 65536;  // numbers of a 16-bit type

// Every number of a 16-bit type, and the same numbers in float32.
struct Numbers {
    Array half, single{Type::float32, count};
    explicit Numbers(Type type) : half(type, count)
    {
        for (std::size_t i = 0; i < count; ++i) half.set_bits(i, i), single.set(i, decode(type, i));
    }
};

void check_rounded(const std::string& what, const Numbers& inputs, const Array& half, const Array& single)
{
    for (std::size_t i = 0; i < count; ++i) {
        const bool both_nan = std::isnan(half.get(i)) && std::isnan(single.get(i));
        CHECK(both_nan || half.bits(i) == encode(half.type(), single.get(i)), what, ", x ", inputs.half.get(i), ": ",
              half.get(i), " for ", single.get(i));
    }
}

// Calls f(case of the 16-bit type, float32 kernels of the same function and method, inputs)
template <class F> void each_half(const Kernels& kernels, F f)
{
    for (const Type type : {Type::float16, Type::bfloat16}) {
        const Numbers inputs(type);
        for (const Case& c : cases(kernels))
            if (c.type == type) f(c, kernels.activation(c.function, Type::float32, c.method), inputs);
    }
}

}  // namespace

TEST(reading_and_writing_keeps_every_number)
{
    each_half(kernels, [](const Case& c, const Activation&, const Numbers& inputs) {
        if (c.function != Function::isrlu) return;
        Array out(c.type, count);
        c.run().forward(inputs.half.at(), out.at(), count, 0);  // alpha 0: f(x) = x
        for (std::size_t i = 0; i < count; ++i)
            CHECK(same(out, i, inputs.half, i), c.name(), ", bits ", i, ": ", out.bits(i));
    });
}

TEST(every_half_is_the_float32_result_rounded_once)
{
    each_half(kernels, [&](const Case& c, const Activation& float32_kernels, const Numbers& inputs) {
        Array half(c.type, count), single(Type::float32, count);
        for (const double alpha : {1.0, 3.0, 0.1}) {
            c.run().forward(inputs.half.at(), half.at(), count, alpha);
            float32_kernels.forward(inputs.single.at(), single.at(), count, alpha);
            check_rounded(text(c.name(), ", alpha ", alpha), inputs, half, single);
        }
        c.run().derivative(inputs.half.at(), half.at(), count, 1);
        float32_kernels.derivative(inputs.single.at(), single.at(), count, 1);
        check_rounded(c.name() + " derivative", inputs, half, single);
        const Array grad_half(c.type, count, -1.375), grad_single(Type::float32, count, -1.375);
        c.run().backward(inputs.half.at(), grad_half.at(), half.at(), count, 3, nullptr);
        float32_kernels.backward(inputs.single.at(), grad_single.at(), single.at(), count, 3, nullptr);
        check_rounded(c.name() + " backward", inputs, half, single);
        c.run().backward_from_output(inputs.half.at(), grad_half.at(), half.at(), count, 3, nullptr);
        float32_kernels.backward_from_output(inputs.single.at(), grad_single.at(), single.at(), count, 3, nullptr);
        check_rounded(c.name() + " backward from output", inputs, half, single);
    });
}

TEST(every_half_rsqrt_is_the_float32_result_rounded_once)
{
    for (const Type type : {Type::float16, Type::bfloat16}) {
        const Numbers inputs(type);
        for (int m = 0; m < method_count; ++m) {
            Array half(type, count), single(Type::float32, count);
            kernels.rsqrt[int(type)][m](inputs.half.at(), half.at(), count, 0);
            kernels.rsqrt[int(Type::float32)][m](inputs.single.at(), single.at(), count, 0);
            check_rounded(text("rsqrt ", method_names[m]), inputs, half, single);
        }
    }
}

// Kernel results do not cover every float32. This checks the conversion itself, as compiled in this file, on random bit
// patterns and on ties.
template <class V, class Half> static void check_conversion(Type type, const char* isa)
{
    std::mt19937 random(11);
    constexpr std::size_t lanes = traits<V>::lanes;
    for (std::uint32_t i = 0; i < 400000; i += lanes) {
        float x[lanes], back[lanes];
        Half half[lanes];
        for (float& each : x) {
            std::uint32_t bits = random();
            if (i % 3 == 0) bits &= 0xfffff000u;  // ties in float16
            if (i % 3 == 1) bits = (bits & 0x8fffffffu) | 0x30000000u;  // in float16's range
            if (i % 3 == 2 && random() % 2) bits &= 0xffff8000u;  // ties in bfloat16
            std::memcpy(&each, &bits, 4);
        }
        write(half, read<V>(x));
        write(back, read<V>(half));
        for (std::size_t j = 0; j < lanes; ++j) {
            const double rounded = decode(type, encode(type, x[j]));
            const bool both_nan = std::isnan(x[j]) && std::isnan(decode(type, half[j].bits)) && std::isnan(back[j]);
            CHECK(both_nan || half[j].bits == encode(type, x[j]), isa, " ", type_names[int(type)], ", x ", x[j],
                  ": bits ", half[j].bits);
            CHECK(both_nan || (back[j] == rounded && std::signbit(back[j]) == std::signbit(rounded)), isa, ": ",
                  back[j], " for ", rounded);
        }
    }
}

TEST_ONCE(float32_numbers_round_once)
{
    check_conversion<float, float16>(Type::float16, "scalar");
    check_conversion<float, bfloat16>(Type::bfloat16, "scalar");
#if defined(__x86_64__) || defined(_M_X64)
    using V = vec<float, xsimd::sse2>;
#elif defined(__aarch64__)
    using V = vec<float, xsimd::neon64>;
#else
    using V = float;
#endif
    check_conversion<V, float16>(Type::float16, "vector");
    check_conversion<V, bfloat16>(Type::bfloat16, "vector");
}

}  // namespace isrlu::testing
