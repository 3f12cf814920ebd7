// Kernels over whole tensors: on PyTorch's thread pool, with one alpha or with one alpha per channel.
//
// Work is divided into blocks that depend on the shape alone, and partial sums are added in block order. Results are
// the same, bit for bit, for any number of threads.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "activation/kernel_table.hpp"

namespace isrlu {

// libtorch's torch_parallel_for: calls f(begin, end, context) on subranges of at least grain_size elements. Returns
// non-zero on failure.
using ParallelFor = std::int32_t (*)(std::int64_t begin, std::int64_t end, std::int64_t grain_size,
                                     void (*f)(std::int64_t, std::int64_t, void*), void* context);
void set_parallel_for(ParallelFor f);  // null: everything runs on the calling thread
ParallelFor current_parallel_for();

// Calls f(begin, end) on subranges of [0, n) of at least min_count each.
template <class F> void parallel(std::size_t n, std::size_t min_count, F f)
{
    const ParallelFor pool = current_parallel_for();
    if (!pool || n <= min_count) return f(std::size_t(0), n);
    const auto call = [](std::int64_t begin, std::int64_t end, void* context) {
        (*static_cast<F*>(context))(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    };
    if (pool(0, static_cast<std::int64_t>(n), static_cast<std::int64_t>(min_count), call, &f) != 0)
        throw std::runtime_error("isrlu: PyTorch's thread pool reported a failure");
}

// The kernels of one function, type and method, with the type.
struct ActivationKernel {
    const Activation* activation;
    Type type;
};

// Data laid out as [outer, channels, inner]. Channel c has alpha alphas[c].
struct Channels {
    std::size_t outer, channels, inner;
    const void* alphas;
    std::size_t size() const { return outer * channels * inner; }
};

void forward(ActivationKernel k, const void* src, void* dst, std::size_t n, double alpha);
void forward(ActivationKernel k, const void* src, void* dst, Channels shape);
void backward(ActivationKernel k, bool from_output, const void* saved, const void* grad_out, void* grad_in,
              std::size_t n, double alpha);
// alpha_grad: [channels], overwritten; or null
void backward(ActivationKernel k, bool from_output, const void* saved, const void* grad_out, void* grad_in,
              Channels shape, double* alpha_grad);

}  // namespace isrlu
