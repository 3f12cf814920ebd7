// Whole-tensor calls: the kernels over PyTorch's thread pool, with one alpha or one per channel.
//
// Work is cut into blocks that depend on the shape alone, and sums are added up in the blocks' order: the number of threads changes no bit.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "activation/kernel_table.hpp"

namespace isrlu {

// libtorch's torch_parallel_for: calls f(from, to, context) on pieces of [begin, end) of at least `grain`; non-zero means failure.
using ParallelFor = std::int32_t (*)(std::int64_t begin, std::int64_t end, std::int64_t grain,
                                     void (*f)(std::int64_t, std::int64_t, void*), void* context);
void set_parallel_for(ParallelFor f);  // null: everything runs on the calling thread
ParallelFor current_parallel_for();

// Calls f(from, to) on pieces of [0, n), at least `least` long.
template <class F> void parallel(std::size_t n, std::size_t least, F f)
{
    const ParallelFor pool = current_parallel_for();
    if (!pool || n <= least) return f(std::size_t(0), n);
    const auto piece = [](std::int64_t from, std::int64_t to, void* context) {
        (*static_cast<F*>(context))(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
    };
    if (pool(0, static_cast<std::int64_t>(n), static_cast<std::int64_t>(least), piece, &f) != 0)
        throw std::runtime_error("isrlu: PyTorch's thread pool reported a failure");
}

// One kernel of the build in use.
struct Bound {
    const Activation* activation;
    Type type;
};

// Data laid out as [outer, channels, inner], alpha of channel c at alphas[c].
struct Channels {
    std::size_t outer, channels, inner;
    const void* alphas;
    std::size_t size() const { return outer * channels * inner; }
};

void forward(Bound k, const void* src, void* dst, std::size_t n, double alpha);
void forward(Bound k, const void* src, void* dst, Channels shape);
void backward(Bound k, bool from_output, const void* saved, const void* grad_out, void* grad_in, std::size_t n,
              double alpha);
// alpha_grad: `channels` numbers, or null
void backward(Bound k, bool from_output, const void* saved, const void* grad_out, void* grad_in, Channels shape,
              double* alpha_grad);

}  // namespace isrlu
