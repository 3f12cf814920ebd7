// Whole-tensor calls, with channels in every layout, on any number of threads; and the choice of the instruction set.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "activation/threaded.hpp"
#include "isa/dispatch.hpp"
#include "tests/reference.hpp"
#include "tests/threads.hpp"

namespace isrlu::testing {
namespace {

std::int32_t fails(std::int64_t, std::int64_t, std::int64_t, void (*)(std::int64_t, std::int64_t, void*), void*)
{
    return 1;
}

struct Tensor {
    Type type;
    std::size_t outer, channels, inner, size = outer * channels * inner;
    Array x{type, size}, grad{type, size}, alphas{compute_type(type), channels};
    Channels shape() const { return {outer, channels, inner, alphas.at()}; }
    std::size_t channel(std::size_t i) const { return i / inner % channels; }
    std::string name() const { return text(type_names[int(type)], " [", outer, ", ", channels, ", ", inner, "]"); }

    Tensor(Type type, std::size_t outer, std::size_t channels, std::size_t inner)
        : type(type),
          outer(outer),
          channels(channels),
          inner(inner)
    {
        for (std::size_t i = 0; i < size; ++i)
            x.set(i, static_cast<double>(i * 37 % 1009) / 100 - 7),
                grad.set(i, static_cast<double>(i * 13 % 101) / 50 - 0.7);
        for (std::size_t c = 0; c < channels; ++c) alphas.set(c, static_cast<double>(c % 7) / 2);  // includes 0 and 1
    }
};

struct Outcome {
    Array forward, backward, from_output;
    std::vector<double> alpha_grad, alpha_grad_from_output;

    Outcome(ActivationKernel k, const Tensor& t, int threads)
        : forward(t.type, t.size),
          backward(forward),
          from_output(forward),
          alpha_grad(t.channels, 9),
          alpha_grad_from_output(t.channels, 9)
    {
        const Threads scope(threads);
        isrlu::forward(k, t.x.at(), forward.at(), t.shape());
        isrlu::backward(k, false, t.x.at(), t.grad.at(), backward.at(), t.shape(), alpha_grad.data());
        isrlu::backward(k, true, forward.at(), t.grad.at(), from_output.at(), t.shape(), alpha_grad_from_output.data());
    }
};

// Against the kernels with one alpha per element, and against long double.
void check_values(ActivationKernel k, const Tensor& t, const Outcome& got)
{
    Array alphas(compute_type(t.type), t.size), expected(t.type, t.size);
    for (std::size_t i = 0; i < t.size; ++i) alphas.set_bits(i, t.alphas.bits(t.channel(i)));
    k.activation->forward_per_element(t.x.at(), expected.at(), t.size, alphas.at());
    CHECK(got.forward == expected, "forward ", t.name());
    k.activation->backward_per_element(t.x.at(), t.grad.at(), expected.at(), t.size, alphas.at(), nullptr);
    CHECK(got.backward == expected, "backward ", t.name());
    k.activation->backward_from_output_per_element(got.forward.at(), t.grad.at(), expected.at(), t.size, alphas.at(),
                                                   nullptr);
    CHECK(got.from_output == expected, "backward from output ", t.name());

    std::vector<double> exact(t.channels), sizes(t.channels);
    for (std::size_t i = 0; i < t.size; ++i) {
        const double y = static_cast<double>(value(Function::isrlu, t.x.get(i), alphas.get(i)));
        const double term = t.x.get(i) >= 0 ? 0 : -t.grad.get(i) * y * y * y / 2;
        exact[t.channel(i)] += term, sizes[t.channel(i)] += std::fabs(term);
    }
    const double tolerance = t.type == Type::float64 ? 1e-13 : 1e-6;
    for (std::size_t c = 0; c < t.channels; ++c)
        CHECK(std::fabs(got.alpha_grad[c] - exact[c]) <= tolerance * sizes[c], t.name(), ", channel ", c, ": ",
              got.alpha_grad[c], " for ", exact[c]);
}

void check_tensor(const Kernels& kernels, const Tensor& t)
{
    const ActivationKernel k{&kernels.activation(Function::isrlu, t.type, Method::full), t.type};
    const Outcome one(k, t, 0);
    check_values(k, t, one);
    for (const int threads : {2, 7}) {
        const Outcome many(k, t, threads);
        CHECK(one.forward == many.forward && one.backward == many.backward && one.from_output == many.from_output,
              t.name(), ", ", threads, " threads");
        CHECK(one.alpha_grad == many.alpha_grad && one.alpha_grad_from_output == many.alpha_grad_from_output,
              "alpha's gradient ", t.name(), ", ", threads, " threads");
    }
}

template <class F> std::string message_of(F f)
{
    try {
        f();
    }
    catch (const std::exception& error) {
        return error.what();
    }
    return "";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST(channels_in_every_layout_and_on_any_number_of_threads)
{
    constexpr std::size_t elements = 40000;  // enough for two threads
    const int before = Threads::calls;
    for (const std::size_t channels : {1, 3, 64, 5000})
        for (const std::size_t inner : {1, 2, 63, 64, 1000}) {
            const std::size_t outer = std::max<std::size_t>(1, elements / (channels * inner));
            for (int t = 0; t < type_count; ++t)
                if (channels * inner <= elements || (Type(t) == Type::float32 && inner <= 64))
                    check_tensor(kernels, {Type(t), outer, channels, inner});
        }
    check_tensor(kernels, {Type::float64, 1, 500, 1000});
    check_tensor(kernels, {Type::bfloat16, 1, 64, 1000});
    check_tensor(kernels, {Type::float32, 1, 1, 100001});
    CHECK(Threads::calls > before, "parallel_for was never called");
}

TEST(one_alpha_on_any_number_of_threads)
{
    const Tensor t(Type::float32, 1, 1, 100003);
    const ActivationKernel k{&kernels.activation(Function::isru, t.type, Method::full), t.type};
    Array forward(t.type, t.size), backward = forward, expected = forward;
    for (const int threads : {0, 1, 2, 7}) {
        const Threads scope(threads);
        isrlu::forward(k, t.x.at(), forward.at(), t.size, 3);
        k.activation->forward(t.x.at(), expected.at(), t.size, 3);
        CHECK(forward == expected, "forward, ", threads, " threads");
        isrlu::backward(k, false, t.x.at(), t.grad.at(), backward.at(), t.size, 3);
        k.activation->backward(t.x.at(), t.grad.at(), expected.at(), t.size, 3, nullptr);
        CHECK(backward == expected, "backward, ", threads, " threads");
    }
}

TEST(empty_tensors_have_a_gradient_of_0)
{
    for (const auto& [outer, inner] : {std::pair<std::size_t, std::size_t>{0, 5}, {2, 0}}) {
        const Tensor t(Type::float32, outer, 3, inner);
        const Outcome got({&kernels.activation(Function::isrlu, t.type, Method::full), t.type}, t, 2);
        CHECK(got.alpha_grad == std::vector<double>(3), t.name());
    }
}

TEST(a_failing_thread_pool_is_an_error)
{
    const Tensor t(Type::float32, 1, 1, 100003);
    Array out(t.type, t.size);
    set_parallel_for(fails);
    const std::string message = message_of([&] {
        isrlu::forward({&kernels.activation(Function::isrlu, t.type, Method::full), t.type}, t.x.at(), out.at(), t.size,
                       1);
    });
    set_parallel_for(nullptr);
    CHECK(contains(message, "thread pool"), message);
}

TEST(every_available_instruction_set_has_its_name) { CHECK(&kernels_named(kernels.name) == &kernels, kernels.name); }

#if !defined(_WIN32)
TEST_ONCE(an_instruction_set_can_be_forced)
{
    const auto with = [](const char* name) {
        setenv("ISRLU_SIMD", name, 1);
        return message_of([] { active(); });
    };
#if defined(__x86_64__) || defined(_M_X64)
    CHECK(contains(with("neon"), "ISRLU_SIMD: instruction set 'neon' is not available here: this CPU has scalar"),
          with("neon"));
#else
    CHECK(contains(with("avx2"), "ISRLU_SIMD: instruction set 'avx2' is not available here: this CPU has scalar"),
          with("avx2"));
#endif
    CHECK(
        contains(with("mmx"), "ISRLU_SIMD: unknown instruction set 'mmx': known are scalar, sse2, avx2, avx512, neon"),
        with("mmx"));
    CHECK(with("scalar").empty(), with("scalar"));
    CHECK(&active() == &kernels_named("scalar"), active().name);
    CHECK(available().front() == &kernels_named("scalar"), "scalar code runs everywhere");
}
#endif

}  // namespace isrlu::testing
