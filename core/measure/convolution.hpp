// Direct convolution of one image with one small filter, for the paper's table 1. Benchmarks only.
//
//   out[y][x] = sum over i < Height, j < Width of filter[i][j] * image[y + i][x + j]      (no padding)
//
// Batches run along x. A block of 8 batches keeps its sums in registers while the filter is walked once, so that one broadcast weight serves 8
// multiply-adds; each of these loads its own, unaligned, piece of the image, so the bound is 2 loads a cycle, as it is 2 multiply-adds.
// Tried on AVX2 (Zen 3), cycles per output element of 5x5 on a 134 x 134 image: blocks of 4 batches 3.1, 6 2.9, 8 2.7, 10 2.8.
#pragma once

#include "activation/array_loops.hpp"

namespace isrlu {
namespace {

constexpr int conv_block = 8;  // batches

// One block of `Batches` batches at out[0]. The loops over batches are unrolled by order: at -O2 the sums would live in memory. Those over the
// filter are not: with all of 5x5 in one piece the compiler runs out of registers (SSE2: 9.4 cycles instead of 4.9).
template <int Height, int Width, int Batches, class V>
void convolve_block(const float* image, std::size_t stride, const float* filter, float* out)
{
    constexpr std::size_t lanes = traits<V>::lanes;
    V sums[Batches];
#pragma GCC unroll 8
    for (int b = 0; b < Batches; ++b) sums[b] = constant<V>(0);
    for (int i = 0; i < Height; ++i)
        for (int j = 0; j < Width; ++j) {
            const V weight(filter[i * Width + j]);
            const float* from = image + i * stride + j;
#pragma GCC unroll 8
            for (int b = 0; b < Batches; ++b) sums[b] = fma(read<V>(from + b * lanes), weight, sums[b]);
        }
#pragma GCC unroll 8
    for (int b = 0; b < Batches; ++b) write(out + b * lanes, sums[b]);
}

// image: rows x columns, out: (rows - Height + 1) x (columns - Width + 1); both dense, and out's rows at least one batch long.
template <int Height, int Width, class V>
[[gnu::flatten, gnu::noinline]] void convolve(const float* image, const float* filter, float* out, std::size_t rows,
                                              std::size_t columns)
{
    constexpr std::size_t lanes = traits<V>::lanes, block = conv_block * lanes;
    const std::size_t width = columns - Width + 1;
    for (std::size_t y = 0; y + Height <= rows; ++y, image += columns, out += width) {
        std::size_t x = 0;
        for (; x + block <= width; x += block)
            convolve_block<Height, Width, conv_block, V>(image + x, columns, filter, out + x);
        for (; x + lanes <= width; x += lanes) convolve_block<Height, Width, 1, V>(image + x, columns, filter, out + x);
        if (x <
            width) {  // the last batch once more, moved back so that it ends with the row: the same sums are stored again
            x = width - lanes;
            convolve_block<Height, Width, 1, V>(image + x, columns, filter, out + x);
        }
    }
}

}  // namespace
}  // namespace isrlu
