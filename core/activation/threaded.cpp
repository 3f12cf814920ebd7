#include "activation/threaded.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace isrlu {
namespace {

ParallelFor parallel_for = nullptr;

// Below this a second thread is slower. PyTorch uses the same number.
constexpr std::size_t min_elements_per_thread = 32768;
// Elements of one channel that one kernel call processes, and whose alpha gradients it sums.
constexpr std::size_t block_elements = 16384;
// A channel with at least this many consecutive elements gets kernel calls with a single alpha.
constexpr std::size_t long_run_elements = 64;
// Channels with shorter runs are grouped into tiles of this many elements, for kernel calls with an alpha per element.
constexpr std::size_t tile_elements = 2048;
// Partial sums of the alpha gradients over tiles: at most this many rows of [channels] float64.
constexpr std::size_t max_partial_sums = 64;

// Address of element i. Null stays null (an array that a call does not have).
template <class P> P* at(P* p, std::size_t i, Type type)
{
    using Byte = std::conditional_t<std::is_const_v<P>, const char, char>;
    return p ? static_cast<Byte*>(p) + i * type_sizes[static_cast<int>(type)] : nullptr;
}

double alpha_at(const Channels& shape, std::size_t channel, Type type)
{
    return type == Type::float64 ? static_cast<const double*>(shape.alphas)[channel]
                                 : static_cast<const float*>(shape.alphas)[channel];
}

// Long runs: every run of `inner` elements, divided into blocks.
struct RunBlocks {
    Channels shape;
    std::size_t blocks_per_run = (shape.inner + block_elements - 1) / block_elements;
    std::size_t count = shape.outer * shape.channels * blocks_per_run;
    std::size_t channel(std::size_t block) const { return block / blocks_per_run % shape.channels; }

    // f(block, index of its first element, number of elements, channel)
    template <class F> void for_each(F f) const
    {
        const std::size_t usual_size = std::min(shape.inner, block_elements);
        const std::size_t min_blocks = std::max<std::size_t>(1, min_elements_per_thread / usual_size);
        parallel(count, min_blocks, [&](std::size_t begin, std::size_t end) {
            for (std::size_t block = begin; block < end; ++block) {
                const std::size_t start = block % blocks_per_run * block_elements;
                f(block, block / blocks_per_run * shape.inner + start, std::min(block_elements, shape.inner - start),
                  channel(block));
            }
        });
    }
};

// Short runs: a tile is one or more rows of [channels, inner]. All tiles share one array of alphas, one per element.
template <class C> struct Tiles {
    Channels shape;
    std::size_t row_elements = shape.channels * shape.inner;
    std::size_t rows_per_tile = std::max<std::size_t>(1, tile_elements / row_elements);
    std::size_t count = (shape.outer + rows_per_tile - 1) / rows_per_tile;
    std::vector<C> alphas;

    explicit Tiles(const Channels& s) : shape(s), alphas(row_elements * rows_per_tile)
    {
        for (std::size_t i = 0; i < alphas.size(); ++i) alphas[i] = static_cast<const C*>(s.alphas)[channel(i)];
    }
    std::size_t channel(std::size_t i) const { return i / shape.inner % shape.channels; }
    std::size_t start(std::size_t tile) const { return tile * alphas.size(); }
    std::size_t size(std::size_t tile) const { return std::min(alphas.size(), shape.size() - start(tile)); }
    std::size_t min_per_thread() const { return std::max<std::size_t>(1, min_elements_per_thread / alphas.size()); }
};

template <class C> void forward_tiles(ActivationKernel k, const void* src, void* dst, const Channels& shape)
{
    const Tiles<C> tiles(shape);
    parallel(tiles.count, tiles.min_per_thread(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t t = begin; t < end; ++t)
            k.activation->forward_per_element(at(src, tiles.start(t), k.type), at(dst, tiles.start(t), k.type),
                                              tiles.size(t), tiles.alphas.data());
    });
}

template <class C>
void backward_tiles(ActivationKernel k, BackwardPerElement kernel, const void* saved, const void* grad_out,
                    void* grad_in, const Channels& shape, double* alpha_grad)
{
    const Tiles<C> tiles(shape);
    // One partial sum for each group of consecutive tiles.
    const std::size_t tiles_per_group = (tiles.count + max_partial_sums - 1) / max_partial_sums,
                      groups = (tiles.count + tiles_per_group - 1) / tiles_per_group;
    std::vector<double> sums(alpha_grad ? groups * shape.channels : 0);
    const std::size_t min_groups = std::max<std::size_t>(1, tiles.min_per_thread() / tiles_per_group);
    parallel(groups, min_groups, [&](std::size_t begin, std::size_t end) {
        std::vector<C> alpha_grads(alpha_grad ? tiles.alphas.size() : 0);
        for (std::size_t g = begin; g < end; ++g)
            for (std::size_t t = g * tiles_per_group; t < std::min(tiles.count, (g + 1) * tiles_per_group); ++t) {
                const std::size_t i = tiles.start(t), n = tiles.size(t);
                std::fill(alpha_grads.begin(), alpha_grads.end(), C(0));
                kernel(at(saved, i, k.type), at(grad_out, i, k.type), at(grad_in, i, k.type), n, tiles.alphas.data(),
                       alpha_grad ? alpha_grads.data() : nullptr);
                if (alpha_grad)
                    for (std::size_t j = 0; j < n; ++j) sums[g * shape.channels + tiles.channel(j)] += alpha_grads[j];
            }
    });
    for (std::size_t i = 0; i < sums.size(); ++i) alpha_grad[i % shape.channels] += sums[i];
}

}  // namespace

void set_parallel_for(ParallelFor f) { parallel_for = f; }
ParallelFor current_parallel_for() { return parallel_for; }

void forward(ActivationKernel k, const void* src, void* dst, std::size_t n, double alpha)
{
    parallel(n, min_elements_per_thread, [&](std::size_t begin, std::size_t end) {
        k.activation->forward(at(src, begin, k.type), at(dst, begin, k.type), end - begin, alpha);
    });
}

void forward(ActivationKernel k, const void* src, void* dst, Channels shape)
{
    if (shape.size() == 0) return;
    if (shape.inner >= long_run_elements)
        RunBlocks{shape}.for_each([&](std::size_t, std::size_t i, std::size_t n, std::size_t channel) {
            k.activation->forward(at(src, i, k.type), at(dst, i, k.type), n, alpha_at(shape, channel, k.type));
        });
    else if (k.type == Type::float64) forward_tiles<double>(k, src, dst, shape);
    else forward_tiles<float>(k, src, dst, shape);
}

void backward(ActivationKernel k, bool from_output, const void* saved, const void* grad_out, void* grad_in,
              std::size_t n, double alpha)
{
    const Backward kernel = from_output ? k.activation->backward_from_output : k.activation->backward;
    parallel(n, min_elements_per_thread, [&](std::size_t begin, std::size_t end) {
        kernel(at(saved, begin, k.type), at(grad_out, begin, k.type), at(grad_in, begin, k.type), end - begin, alpha,
               nullptr);
    });
}

void backward(ActivationKernel k, bool from_output, const void* saved, const void* grad_out, void* grad_in,
              Channels shape, double* alpha_grad)
{
    if (alpha_grad) std::fill_n(alpha_grad, shape.channels, 0.0);
    if (shape.size() == 0) return;
    if (shape.inner >= long_run_elements || shape.channels == 1) {
        if (shape.channels == 1) shape = {1, 1, shape.size(), shape.alphas};
        const Backward kernel = from_output ? k.activation->backward_from_output : k.activation->backward;
        const RunBlocks blocks{shape};
        std::vector<double> sums(alpha_grad ? blocks.count : 0);
        blocks.for_each([&](std::size_t block, std::size_t i, std::size_t n, std::size_t channel) {
            kernel(at(saved, i, k.type), at(grad_out, i, k.type), at(grad_in, i, k.type), n,
                   alpha_at(shape, channel, k.type), alpha_grad ? &sums[block] : nullptr);
        });
        for (std::size_t block = 0; block < sums.size(); ++block) alpha_grad[blocks.channel(block)] += sums[block];
        return;
    }
    const BackwardPerElement kernel =
        from_output ? k.activation->backward_from_output_per_element : k.activation->backward_per_element;
    if (k.type == Type::float64) backward_tiles<double>(k, kernel, saved, grad_out, grad_in, shape, alpha_grad);
    else backward_tiles<float>(k, kernel, saved, grad_out, grad_in, shape, alpha_grad);
}

}  // namespace isrlu
