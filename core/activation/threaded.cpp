#include "activation/threaded.hpp"

#include <algorithm>
#include <vector>

namespace isrlu {
namespace {

ParallelFor parallel_for = nullptr;

constexpr std::size_t grain = 32768;  // elements below which a second thread does not pay: PyTorch's own figure
constexpr std::size_t block = 16384;  // elements whose alpha gradient is summed in one go
constexpr std::size_t long_run = 64;  // elements from which a channel's run is worth a kernel call with one alpha
constexpr std::size_t tile = 2048;  // elements that share one table of alphas where runs are short
constexpr std::size_t partial_sums = 64;  // rows of float64 sums that the backward pass over short runs keeps

// Pointer to element i of an array of the kernel's type. A null pointer (an array that a call does not have) stays null.
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

// Every channel's run cut into blocks: f(item, first element, count, channel).
struct Runs {
    Channels shape;
    std::size_t blocks = (shape.inner + block - 1) / block;  // in one run
    std::size_t items = shape.outer * shape.channels * blocks;
    std::size_t channel(std::size_t item) const { return item / blocks % shape.channels; }

    template <class F> void each(F f) const
    {
        const std::size_t usual = std::min(shape.inner, block);
        parallel(items, std::max<std::size_t>(1, grain / usual), [&](std::size_t from, std::size_t to) {
            for (std::size_t item = from; item < to; ++item) {
                const std::size_t start = item % blocks * block;
                f(item, item / blocks * shape.inner + start, std::min(block, shape.inner - start), channel(item));
            }
        });
    }
};

// Short runs: [channels, inner] is one row, several rows are one tile, and a tile goes to the kernel with an alpha for each element.
template <class C> struct Tiles {
    Channels shape;
    std::size_t row = shape.channels * shape.inner;
    std::size_t rows = std::max<std::size_t>(1, tile / row);  // in one tile
    std::size_t count = (shape.outer + rows - 1) / rows;
    std::vector<C> alphas;

    explicit Tiles(const Channels& s) : shape(s), alphas(row * rows)
    {
        for (std::size_t i = 0; i < alphas.size(); ++i) alphas[i] = static_cast<const C*>(s.alphas)[channel(i)];
    }
    std::size_t channel(std::size_t i) const { return i / shape.inner % shape.channels; }
    std::size_t start(std::size_t t) const { return t * alphas.size(); }
    std::size_t size(std::size_t t) const { return std::min(alphas.size(), shape.size() - start(t)); }
    std::size_t least() const { return std::max<std::size_t>(1, grain / alphas.size()); }
};

template <class C> void forward_tiles(Bound k, const void* src, void* dst, const Channels& shape)
{
    const Tiles<C> tiles(shape);
    parallel(tiles.count, tiles.least(), [&](std::size_t from, std::size_t to) {
        for (std::size_t t = from; t < to; ++t)
            k.activation->forward_lanes(at(src, tiles.start(t), k.type), at(dst, tiles.start(t), k.type), tiles.size(t),
                                        tiles.alphas.data());
    });
}

template <class C>
void backward_tiles(Bound k, BackwardLanes kernel, const void* saved, const void* grad_out, void* grad_in,
                    const Channels& shape, double* alpha_grad)
{
    const Tiles<C> tiles(shape);
    const std::size_t group = (tiles.count + partial_sums - 1) / partial_sums,
                      groups = (tiles.count + group - 1) / group;
    std::vector<double> sums(alpha_grad ? groups * shape.channels : 0);
    parallel(groups, std::max<std::size_t>(1, tiles.least() / group), [&](std::size_t from, std::size_t to) {
        std::vector<C> lanes(alpha_grad ? tiles.alphas.size() : 0);
        for (std::size_t g = from; g < to; ++g)
            for (std::size_t t = g * group; t < std::min(tiles.count, (g + 1) * group); ++t) {
                const std::size_t i = tiles.start(t), n = tiles.size(t);
                std::fill(lanes.begin(), lanes.end(), C(0));
                kernel(at(saved, i, k.type), at(grad_out, i, k.type), at(grad_in, i, k.type), n, tiles.alphas.data(),
                       alpha_grad ? lanes.data() : nullptr);
                if (alpha_grad)
                    for (std::size_t j = 0; j < n; ++j) sums[g * shape.channels + tiles.channel(j)] += lanes[j];
            }
    });
    for (std::size_t i = 0; i < sums.size(); ++i) alpha_grad[i % shape.channels] += sums[i];
}

}  // namespace

void set_parallel_for(ParallelFor f) { parallel_for = f; }
ParallelFor current_parallel_for() { return parallel_for; }

void forward(Bound k, const void* src, void* dst, std::size_t n, double alpha)
{
    parallel(n, grain, [&](std::size_t from, std::size_t to) {
        k.activation->forward(at(src, from, k.type), at(dst, from, k.type), to - from, alpha);
    });
}

void forward(Bound k, const void* src, void* dst, Channels shape)
{
    if (shape.size() == 0) return;
    if (shape.inner >= long_run)
        Runs{shape}.each([&](std::size_t, std::size_t i, std::size_t n, std::size_t channel) {
            k.activation->forward(at(src, i, k.type), at(dst, i, k.type), n, alpha_at(shape, channel, k.type));
        });
    else if (k.type == Type::float64) forward_tiles<double>(k, src, dst, shape);
    else forward_tiles<float>(k, src, dst, shape);
}

void backward(Bound k, bool from_output, const void* saved, const void* grad_out, void* grad_in, std::size_t n,
              double alpha)
{
    const Backward kernel = from_output ? k.activation->backward_from_output : k.activation->backward;
    parallel(n, grain, [&](std::size_t from, std::size_t to) {
        kernel(at(saved, from, k.type), at(grad_out, from, k.type), at(grad_in, from, k.type), to - from, alpha,
               nullptr);
    });
}

void backward(Bound k, bool from_output, const void* saved, const void* grad_out, void* grad_in, Channels shape,
              double* alpha_grad)
{
    if (alpha_grad) std::fill_n(alpha_grad, shape.channels, 0.0);
    if (shape.size() == 0) return;
    if (shape.inner >= long_run || shape.channels == 1) {
        if (shape.channels == 1) shape = {1, 1, shape.size(), shape.alphas};
        const Backward kernel = from_output ? k.activation->backward_from_output : k.activation->backward;
        const Runs runs{shape};
        std::vector<double> sums(alpha_grad ? runs.items : 0);
        runs.each([&](std::size_t item, std::size_t i, std::size_t n, std::size_t channel) {
            kernel(at(saved, i, k.type), at(grad_out, i, k.type), at(grad_in, i, k.type), n,
                   alpha_at(shape, channel, k.type), alpha_grad ? &sums[item] : nullptr);
        });
        for (std::size_t item = 0; item < sums.size(); ++item) alpha_grad[runs.channel(item)] += sums[item];
        return;
    }
    const BackwardLanes kernel = from_output ? k.activation->backward_from_output_lanes : k.activation->backward_lanes;
    if (k.type == Type::float64) backward_tiles<double>(k, kernel, saved, grad_out, grad_in, shape, alpha_grad);
    else backward_tiles<float>(k, kernel, saved, grad_out, grad_in, shape, alpha_grad);
}

}  // namespace isrlu
