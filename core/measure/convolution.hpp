// Direct convolution of one image with one small filter, for the paper's table 1. Benchmarks only.
//
//   out[y][x] = sum over i < Height, j < Width of filter[i][j] * image[y + i][x + j]      (no padding)
//
// Batches run along x. The sums of a block of 8 batches stay in registers for the whole filter, so one broadcast weight
// serves 8 multiply-adds. Each multiply-add needs one unaligned load of the image. The limits are 2 loads and
// 2 multiply-adds per cycle. Error: rounding of Height * Width additions, in the order of the loops.
// Cost by block size, AVX2, Zen 3, cycles per output element, 5x5 filter, 134 x 134 image: 4 batches 3.1 cycles,
// 6 batches 2.9, 8 batches 2.7, 10 batches 2.8.
#pragma once

#include "activation/array_loops.hpp"

namespace isrlu {
namespace {

constexpr int block_batches = 8;

// One block of `Batches` batches at out[0]. The loops over batches have an unroll pragma: without it, at -O2, the sums
// are kept in memory. The loops over the filter have none: fully unrolled, 5x5 spills registers (SSE2: unrolled 9.4
// cycles, not unrolled 4.9 cycles per output element).
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
            const float* src = image + i * stride + j;
#pragma GCC unroll 8
            for (int b = 0; b < Batches; ++b) sums[b] = fma(read<V>(src + b * lanes), weight, sums[b]);
        }
#pragma GCC unroll 8
    for (int b = 0; b < Batches; ++b) write(out + b * lanes, sums[b]);
}

// image: [rows, columns]. out: [rows - Height + 1, columns - Width + 1]. Both are dense. A row of out has at least one
// batch of elements.
template <int Height, int Width, class V>
[[gnu::flatten, gnu::noinline]] void convolve(const float* image, const float* filter, float* out, std::size_t rows,
                                              std::size_t columns)
{
    constexpr std::size_t lanes = traits<V>::lanes, block_columns = block_batches * lanes;
    const std::size_t width = columns - Width + 1;
    for (std::size_t y = 0; y + Height <= rows; ++y, image += columns, out += width) {
        std::size_t x = 0;
        for (; x + block_columns <= width; x += block_columns)
            convolve_block<Height, Width, block_batches, V>(image + x, columns, filter, out + x);
        for (; x + lanes <= width; x += lanes) convolve_block<Height, Width, 1, V>(image + x, columns, filter, out + x);
        // The last batch ends with the row and overlaps the one before. The overlapping sums are computed again.
        if (x < width) {
            x = width - lanes;
            convolve_block<Height, Width, 1, V>(image + x, columns, filter, out + x);
        }
    }
}

}  // namespace
}  // namespace isrlu
