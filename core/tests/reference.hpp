// The oracle: the formulas as the paper writes them, in long double; the number formats, written out plainly; and the one table of error bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/check.hpp"

namespace isrlu::testing {

// A type's numbers as bits, and as doubles, which hold each of them. `encode` rounds to nearest, ties to even.
double decode(Type type, std::uint64_t bits);
std::uint64_t encode(Type type, double value);
double ulp(Type type, long double value);  // distance of the type's numbers around `value`
double largest(Type type);  // finite
double least_subnormal(Type type);

// Numbers in the memory layout that the kernels take. `get` and `set` convert, `bits` does not.
class Array {
public:
    Array(Type type, std::size_t n, double fill = 0);
    Array(Type type, const std::vector<double>& values);
    std::size_t size() const { return bytes_.size() / width_; }
    Type type() const { return type_; }
    void* at(std::size_t i = 0) { return bytes_.data() + i * width_; }
    const void* at(std::size_t i = 0) const { return bytes_.data() + i * width_; }
    std::uint64_t bits(std::size_t i) const;
    void set_bits(std::size_t i, std::uint64_t bits);
    double get(std::size_t i) const { return decode(type_, bits(i)); }
    void set(std::size_t i, double value) { set_bits(i, encode(type_, value)); }
    bool operator==(const Array& other) const { return bytes_ == other.bytes_; }

private:
    Type type_;
    std::size_t width_;
    std::vector<unsigned char> bytes_;
};
bool same(const Array& a, std::size_t i, const Array& b, std::size_t j);  // the same bits, or NaN both

// The type of alphas and their gradients.
inline Type compute_type(Type type) { return type == Type::float64 ? Type::float64 : Type::float32; }

long double value(Function f, long double x, long double alpha);
long double slope(Function f, long double x, long double alpha);
long double slope_from_output(Function f, long double y, long double alpha);
long double alpha_slope(Function f, long double x, long double alpha);  // df/dalpha

// One entry of an instruction set's table.
struct Case {
    const Kernels& kernels;
    Function function;
    Type type;
    Method method;
    const Activation& run() const { return kernels.activation(function, type, method); }
    double rounded(double alpha) const
    {
        return decode(compute_type(type), encode(compute_type(type), alpha));
    }  // as the kernel sees it
    std::string name() const;
};
std::vector<Case> cases(const Kernels& kernels);
std::vector<Case> cases(const Kernels& kernels, Function function);

// What a kernel's error may be: a relative error that its method brings, and rounding.
struct ErrorBound {
    double relative, ulps;
};
double estimate_error(const Kernels& kernels);  // of the hardware's estimate, relative
ErrorBound root_bound(const Kernels& kernels, Method method);  // of 1/sqrt(d)
double value_error(const Case& c, long double exact);  // the largest |f(x) - exact| allowed
double slope_error(const Case& c, long double exact);

// Random numbers of the type, both signs, of every magnitude, half of them where the functions bend; the same in each run.
std::vector<double> samples(Type type, std::size_t n);

}  // namespace isrlu::testing
