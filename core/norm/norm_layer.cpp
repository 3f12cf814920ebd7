#include "norm/norm_layer.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "activation/threaded.hpp"

namespace isrlu {
namespace {

// Below this a second thread is slower. PyTorch uses the same number.
constexpr std::size_t min_elements_per_thread = 32768;
// Rows that end inside of a batch are joined to rows of at least this many elements.
constexpr std::size_t joined_elements = 1024;
// The backward pass sums this many elements, or rows, in the type of the arithmetic, then in float64.
constexpr std::size_t block_elements = 32768, max_block_rows = 64, row_group = 4;
// Partial sums in float64: at most this many rows of [channels].
constexpr std::size_t max_groups = 64;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// The layer's data as [rows, n], and a last row of `rest` elements. weight and bias are repeated to n elements.
struct Rows {
    const NormLayer& layer;
    const Norm& kernels = layer.kernels.types[static_cast<int>(layer.type)];
    std::size_t joined =
        layer.channels % padded(1) == 0 ? 1 : std::min(layer.rows, divide_up(joined_elements, layer.channels));
    std::size_t n = joined * layer.channels, rows = layer.rows / joined;
    std::size_t rest = (layer.rows - rows * joined) * layer.channels;
    std::vector<unsigned char> memory;  // of weight and bias, where they had to be copied
    const void *weight, *bias;

    Rows(const NormLayer& given, bool needs_bias) : layer(given)
    {
        const std::size_t bytes = n * compute_size(layer.type);
        const bool copies_weight = must_copy(layer.weight), copies_bias = needs_bias && must_copy(layer.bias);
        memory.resize(bytes * (copies_weight + copies_bias));
        weight = copies_weight ? copy(layer.weight, memory.data(), 1) : layer.weight.data;
        bias = copies_bias ? copy(layer.bias, memory.data() + bytes * copies_weight, 0) : layer.bias.data;
    }

    bool must_copy(NormParameter p) const
    {
        return !p.data || joined > 1 || type_sizes[static_cast<int>(p.type)] != compute_size(layer.type);
    }
    const void* copy(NormParameter p, void* to, double absent) const
    {
        if (layer.type == Type::float64) repeat<double>(p, to, absent);
        else repeat<float>(p, to, absent);
        return to;
    }
    template <class T> void repeat(NormParameter p, void* to, double absent) const
    {
        T* values = static_cast<T*>(to);
        if (!p.data) return void(std::fill_n(values, n, static_cast<T>(absent)));
        layer.kernels.types[static_cast<int>(p.type)].widen(p.data, values, layer.channels);
        for (std::size_t i = layer.channels; i < n; ++i) values[i] = values[i - layer.channels];
    }

    std::size_t offset(std::size_t row) const { return row * n * type_sizes[static_cast<int>(layer.type)]; }
};

const void* at(const void* p, std::size_t bytes) { return static_cast<const char*>(p) + bytes; }
void* at(void* p, std::size_t bytes) { return static_cast<char*>(p) + bytes; }

}  // namespace

void norm_forward(const NormLayer& layer, const void* src, void* dst)
{
    const Rows r(layer, true);
    const auto run = [&](std::size_t row, std::size_t rows, std::size_t n) {
        r.kernels.forward(
            {at(src, r.offset(row)), at(dst, r.offset(row)), rows, n, r.weight, r.bias, layer.alpha, layer.shift});
    };
    parallel(r.rows, std::max<std::size_t>(1, min_elements_per_thread / r.n),
             [&](std::size_t begin, std::size_t end) { run(begin, end - begin, r.n); });
    if (r.rest) run(r.rows, 1, r.rest);
}

void norm_backward(const NormLayer& layer, const void* src, const void* grad_out, void* grad_in,
                   NormGradients& gradients)
{
    const Rows r(layer, false);
    const std::size_t rows_per_block =
        std::min(max_block_rows, divide_up(divide_up(block_elements, r.n), row_group) * row_group);
    const std::size_t blocks = divide_up(r.rows, rows_per_block), blocks_per_group = divide_up(blocks, max_groups),
                      groups = divide_up(blocks, blocks_per_group);
    const std::size_t width = padded(r.n), group_size = 2 * width + 2;  // sums of weight, bias, alpha, shift
    std::vector<double> sums(groups * group_size);

    // The rows of one block, added to the sums of its group.
    const auto run = [&](std::size_t row, std::size_t rows, std::size_t n, double* group,
                         std::vector<unsigned char>& scratch) {
        scratch.assign(2 * width * compute_size(layer.type), 0);
        void* bias_sum = scratch.data() + width * compute_size(layer.type);
        r.kernels.backward({at(src, r.offset(row)), at(grad_out, r.offset(row)), at(grad_in, r.offset(row)), rows, n,
                            r.weight, layer.alpha, layer.shift, scratch.data(), bias_sum, group + 2 * width,
                            group + 2 * width + 1});
        r.kernels.add(scratch.data(), group, n);
        r.kernels.add(bias_sum, group + width, n);
    };
    const std::size_t group_elements = blocks_per_group * rows_per_block * r.n;
    parallel(groups, std::max<std::size_t>(1, min_elements_per_thread / group_elements),
             [&](std::size_t begin, std::size_t end) {
                 std::vector<unsigned char> scratch;
                 for (std::size_t g = begin; g < end; ++g)
                     for (std::size_t b = g * blocks_per_group; b < std::min(blocks, (g + 1) * blocks_per_group); ++b) {
                         const std::size_t row = b * rows_per_block;
                         run(row, std::min(rows_per_block, r.rows - row), r.n, &sums[g * group_size], scratch);
                     }
             });
    std::vector<unsigned char> scratch;
    if (r.rest) run(r.rows, 1, r.rest, sums.data(), scratch);

    const Norm& float64 = layer.kernels.types[static_cast<int>(Type::float64)];
    for (std::size_t g = 1; g < groups; ++g) float64.add(&sums[g * group_size], sums.data(), group_size);
    for (std::size_t j = 1; j < r.joined; ++j)
        for (std::size_t c = 0; c < layer.channels; ++c) {
            sums[c] += sums[j * layer.channels + c];
            sums[width + c] += sums[width + j * layer.channels + c];
        }
    if (gradients.weight) std::copy_n(sums.data(), layer.channels, gradients.weight);
    if (gradients.bias) std::copy_n(sums.data() + width, layer.channels, gradients.bias);
    gradients.alpha = sums[2 * width];
    gradients.shift = sums[2 * width + 1];
}

}  // namespace isrlu
