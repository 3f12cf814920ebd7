// The oracle of the C++ tests: the paper's formulas in long double, the number formats bit by bit, and the error
// bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/check.hpp"

namespace isrlu::testing {

// Conversion between a type's bits and double, which represents every number of each type. `encode` rounds to nearest
// even.
double decode(Type type, std::uint64_t bits);
std::uint64_t encode(Type type, double value);
double ulp(Type type, long double value);  // distance between the type's numbers around `value`
double largest(Type type);  // finite number
double least_subnormal(Type type);

// An array in the memory layout of the kernels. `get` and `set` convert, `bits` does not.
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
bool same(const Array& a, std::size_t i, const Array& b, std::size_t j);  // the same bits, or both NaN

// The type of the arithmetic, of alphas and of their gradients.
inline Type compute_type(Type type) { return type == Type::float64 ? Type::float64 : Type::float32; }

long double value(Function f, long double x, long double alpha);
long double slope(Function f, long double x, long double alpha);
long double slope_from_output(Function f, long double y, long double alpha);
long double alpha_slope(Function f, long double x, long double alpha);  // df/dalpha

// One entry of the kernel table of an instruction set.
struct Case {
    const Kernels& kernels;
    Function function;
    Type type;
    Method method;
    const Activation& run() const { return kernels.activation(function, type, method); }
    // alpha in the type of the arithmetic
    double rounded(double alpha) const { return decode(compute_type(type), encode(compute_type(type), alpha)); }
    std::string name() const;
};
std::vector<Case> cases(const Kernels& kernels);
std::vector<Case> cases(const Kernels& kernels, Function function);

// The allowed error of a kernel: the relative error of its method, and rounding.
struct ErrorBound {
    double relative, ulps;
};
double estimate_error(const Kernels& kernels);  // relative, of the hardware's estimate
ErrorBound root_bound(const Kernels& kernels, Method method);  // of 1/sqrt(d)
double value_error(const Case& c, long double exact);  // the largest |f(x) - exact| allowed
double slope_error(const Case& c, long double exact);

// Random numbers of the type, the same in each run: half of them uniform in [-6, 6], half of any sign and magnitude.
std::vector<double> samples(Type type, std::size_t n);

}  // namespace isrlu::testing
