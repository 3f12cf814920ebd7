// DyISRU: y = weight f(u) + bias, f(u) = u / sqrt(1 + u^2), u = alpha x + shift. The table of its kernels.
//
// Data is [rows, n], dense. weight and bias are [n], in the type of the arithmetic: float64 for float64, float32 for
// the other types.
#pragma once

#include "activation/kernel_table.hpp"

namespace isrlu {

struct NormForward {
    const void* src;
    void* dst;
    std::size_t rows, n;
    const void *weight, *bias;
    double alpha, shift;
};

// grad_in = grad_out weight alpha f'(u), and the sums over the rows that give the other gradients.
struct NormBackward {
    const void *src, *grad_out;
    void* grad_in;
    std::size_t rows, n;
    const void* weight;
    double alpha, shift;
    void *weight_sum, *bias_sum;  // grad_out f(u) and grad_out are added to them: [padded(n)], type of the arithmetic
    double *alpha_sum, *shift_sum;  // grad_out weight f'(u) x and grad_out weight f'(u) are added to them
};

// The size of arrays that the kernels may fill beyond n, up to a whole batch.
constexpr std::size_t padded(std::size_t n) { return (n + 15) / 16 * 16; }

// The kernels of one type.
struct Norm {
    void (*forward)(const NormForward&);
    void (*backward)(const NormBackward&);
    void (*widen)(const void* src, void* dst, std::size_t n);  // to the type of the arithmetic
    void (*narrow)(const double* src, void* dst, std::size_t n);
    void (*add)(const void* src, double* sums, std::size_t n);  // sums += src, which has the type of the arithmetic
};

struct NormKernels {
    Norm types[type_count];
};

// The kernels of the instruction set with this name, one of available().
const NormKernels& norm_kernels(std::string_view instruction_set);

}  // namespace isrlu
