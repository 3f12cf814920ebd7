// A result depends on the input's value alone: not on its position, the array's length or alignment, on the
// destination, or on whether alpha is given once or per element.
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/reference.hpp"

namespace isrlu::testing {
namespace {

constexpr std::size_t sizes[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,    9,    15,  16,
                                 17, 31, 32, 33, 63, 64, 65, 97, 1023, 1024, 1025};
constexpr std::size_t offsets[] = {0, 1, 3};  // elements from the start of the array: other lanes and alignments
constexpr std::size_t length = 1100;
constexpr double guard = 42;  // value of elements that a kernel must not write

// Inputs, gradients, alphas, and the results of each kernel in one call over the whole array.
struct Whole {
    Case c;
    Array x{c.type, samples(c.type, length)};
    Array grad{c.type, length};
    Array alphas{compute_type(c.type), length};
    Array forward{c.type, length}, derivative = forward, backward = forward, forward_per_element = forward,
                                   backward_per_element = forward;

    explicit Whole(const Case& c) : c(c)
    {
        for (std::size_t i = 0; i < length; ++i) {
            grad.set(i, static_cast<double>(i % 17) - 8);
            alphas.set(i, static_cast<double>(i % 5) / 2);  // includes 0 and 1
        }
        const Activation& run = c.run();
        run.forward(x.at(), forward.at(), length, 3);
        run.derivative(x.at(), derivative.at(), length, 3);
        run.backward(x.at(), grad.at(), backward.at(), length, 3, nullptr);
        if (!c.run().has_alpha()) return;
        run.forward_per_element(x.at(), forward_per_element.at(), length, alphas.at());
        run.backward_per_element(x.at(), grad.at(), backward_per_element.at(), length, alphas.at(), nullptr);
    }
};

// Checks that `piece` has n results from `offset` on, equal to those of `whole`, and guard values elsewhere.
void check_piece(const char* what, const Whole& w, const Array& whole, const Array& piece, std::size_t offset,
                 std::size_t n)
{
    bool equal = true, untouched = true;
    for (std::size_t i = 0; i < piece.size(); ++i)
        if (i >= offset && i < offset + n) equal = equal && same(piece, i, whole, i);
        else untouched = untouched && piece.get(i) == guard;
    CHECK(equal, what, " ", w.c.name(), ", ", n, " elements from ", offset);
    CHECK(untouched, what, " ", w.c.name(), ", ", n, " elements from ", offset);
}

}  // namespace

TEST(same_bits_at_every_position_and_length)
{
    for (const Case& c : cases(kernels)) {
        const Whole w(c);
        for (const std::size_t offset : offsets)
            for (const std::size_t n : sizes) {
                // The arrays have no spare elements, so that a sanitizer reports a read past the end.
                Array x(c.type, offset + n), grad = x, alphas(compute_type(c.type), offset + n);
                if (n) std::memcpy(x.at(offset), w.x.at(offset), n * type_sizes[int(c.type)]);
                if (n) std::memcpy(grad.at(offset), w.grad.at(offset), n * type_sizes[int(c.type)]);
                if (n) std::memcpy(alphas.at(offset), w.alphas.at(offset), n * compute_size(c.type));
                const auto check = [&](const char* what, const Array& whole, auto call) {
                    Array out(c.type, offset + n + 33, guard);
                    call(out.at(offset));
                    check_piece(what, w, whole, out, offset, n);
                };
                const Activation& run = c.run();
                check("forward", w.forward, [&](void* out) { run.forward(x.at(offset), out, n, 3); });
                check("derivative", w.derivative, [&](void* out) { run.derivative(x.at(offset), out, n, 3); });
                check("backward", w.backward,
                      [&](void* out) { run.backward(x.at(offset), grad.at(offset), out, n, 3, nullptr); });
                if (!c.run().has_alpha()) continue;
                check("forward per element", w.forward_per_element,
                      [&](void* out) { run.forward_per_element(x.at(offset), out, n, alphas.at(offset)); });
                check("backward per element", w.backward_per_element, [&](void* out) {
                    run.backward_per_element(x.at(offset), grad.at(offset), out, n, alphas.at(offset), nullptr);
                });
            }
    }
}

TEST(same_bits_in_place)
{
    for (const Case& c : cases(kernels)) {
        const Whole w(c);
        const Activation& run = c.run();
        const auto check = [&](const char* what, const Array& expected, const Array& start, auto call) {
            Array data = start;
            call(data.at());
            check_piece(what, w, expected, data, 0, length);
        };
        check("forward", w.forward, w.x, [&](void* p) { run.forward(p, p, length, 3); });
        if (c.run().has_alpha())
            check("forward per element", w.forward_per_element, w.x,
                  [&](void* p) { run.forward_per_element(p, p, length, w.alphas.at()); });
        check("derivative", w.derivative, w.x, [&](void* p) { run.derivative(p, p, length, 3); });
        check("backward over the gradient", w.backward, w.grad,
              [&](void* p) { run.backward(w.x.at(), p, p, length, 3, nullptr); });
        check("backward over the input", w.backward, w.x,
              [&](void* p) { run.backward(p, w.grad.at(), p, length, 3, nullptr); });
        // with the gradient of alpha, which reads the input that the gradient overwrites
        double apart = 0, over = 0;
        Array other(c.type, length);
        run.backward(w.x.at(), w.grad.at(), other.at(), length, 3, &apart);
        check("backward with alpha's gradient", other, w.x,
              [&](void* p) { run.backward(p, w.grad.at(), p, length, 3, &over); });
        CHECK(apart == over || (std::isnan(apart) && std::isnan(over)), c.name(), ": ", apart, " ", over);
        check_piece("backward with and without alpha's gradient", w, w.backward, other, 0, length);
    }
}

TEST(same_bits_with_one_alpha_and_with_one_per_element)
{
    for (const Case& c : cases(kernels))
        // alpha 1 and alpha 0 have loops of their own
        for (const double alpha : c.run().has_alpha() ? std::vector{1.0, 0.3, 3.0, 0.0} : std::vector<double>{}) {
            const Whole w(c);
            const Activation& run = c.run();
            const Array alphas(compute_type(c.type), length, alpha);
            Array uniform(c.type, length), per_element = uniform;
            const auto check = [&](const char* what) {
                for (std::size_t i = 0; i < length; ++i)
                    CHECK(same(uniform, i, per_element, i), what, " ", c.name(), ", alpha ", alpha, ", x ", w.x.get(i),
                          ": ", uniform.get(i), " ", per_element.get(i));
            };
            run.forward(w.x.at(), uniform.at(), length, alpha);
            run.forward_per_element(w.x.at(), per_element.at(), length, alphas.at());
            check("forward");
            run.derivative(w.x.at(), uniform.at(), length, alpha);
            run.derivative_per_element(w.x.at(), per_element.at(), length, alphas.at());
            check("derivative");
            run.backward(w.x.at(), w.grad.at(), uniform.at(), length, alpha, nullptr);
            run.backward_per_element(w.x.at(), w.grad.at(), per_element.at(), length, alphas.at(), nullptr);
            check("backward");
            run.backward_from_output(w.forward.at(), w.grad.at(), uniform.at(), length, alpha, nullptr);
            run.backward_from_output_per_element(w.forward.at(), w.grad.at(), per_element.at(), length, alphas.at(),
                                                 nullptr);
            check("backward from output");
        }
}

TEST(rsqrt_same_bits_at_every_position_and_length)
{
    for (int t = 0; t < type_count; ++t)
        for (int m = 0; m < method_count; ++m) {
            const Whole w({kernels, Function::isrlu, Type(t), Method(m)});
            Array whole(Type(t), length);
            kernels.rsqrt[t][m](w.x.at(), whole.at(), length, 0);
            for (const std::size_t n : sizes) {
                Array out(Type(t), n + 34, guard);
                kernels.rsqrt[t][m](w.x.at(1), out.at(1), n, 0);
                check_piece("rsqrt", w, whole, out, 1, n);
            }
        }
}

}  // namespace isrlu::testing
