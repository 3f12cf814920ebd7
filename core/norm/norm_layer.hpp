// DyISRU over whole tensors, on PyTorch's thread pool. Blocks of rows depend on the shape alone, and partial sums are
// added in block order: results are the same, bit for bit, for any number of threads.
#pragma once

#include "norm/norm_table.hpp"

namespace isrlu {

// weight or bias: data of type `type`, or null for 1 and 0.
struct NormParameter {
    const void* data;
    Type type;
};

// Data [rows, channels] of type `type`.
struct NormLayer {
    const NormKernels& kernels;
    Type type;
    std::size_t rows, channels;
    NormParameter weight, bias;
    double alpha, shift;
};

// Gradients in float64. weight, bias: [channels].
struct NormGradients {
    double *weight, *bias;
    double alpha, shift;
};

void norm_forward(const NormLayer& layer, const void* src, void* dst);
void norm_backward(const NormLayer& layer, const void* src, const void* grad_out, void* grad_in,
                   NormGradients& gradients);

}  // namespace isrlu
