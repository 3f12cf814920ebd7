// c += a b for a few rows of a and a matrix b that is packed once and used many times.
//
// A tile of c fills the vector registers. With 32 of them (AVX-512, NEON) it is 6 rows by 4 batches: 24 sums, 6 broadcast
// elements of a, 1 batch of b. With 16 it is 3 rows by 4 batches. b is packed in panels of 4 batches of columns. A depth
// block of a panel stays in the L1 cache for all rows: 16 KB for tiles of 3 rows; 32 KB for tiles of 6 rows, which read
// b half as often and lose little if a part of it comes from the L2 cache. A single row of a takes two panels at once:
// 4 dependent chains of FMA do not hide the FMA's latency, 8 do.
//
// Speed, one core, 32 rows, depth 256, 1024 columns, AVX-512 (Sapphire Rapids): tile of 3 x 4 with 16 KB of a panel
// 98 GFLOP/s; 6 x 4 with 16 KB 180, 32 KB 187, the whole depth 140; torch.mm 122. AVX2 on the same core: 3 x 4 94, where
// the limit of two FMA a cycle is about 96.
//
// Error: each element is summed over k in increasing order, whatever the tile. A row's result does not depend on the
// other rows.
//
// A caller that multiplies by the same b repeatedly alternates between ascending and descending panels: the panels that
// were read last are still in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "simd/batch.hpp"

namespace isrlu {
namespace {

// Vector registers: 32 on AVX-512 and NEON, 16 on the others.
template <class V> constexpr bool has_32_registers = false;
template <class T, class Isa>
constexpr bool has_32_registers<xsimd::batch<T, Isa>> =
    std::is_base_of_v<xsimd::avx512f, Isa> || std::is_base_of_v<xsimd::neon64, Isa>;

template <class Isa>
using square_isa = std::conditional_t<std::is_base_of_v<xsimd::avx512f, Isa>, xsimd::fma3<xsimd::avx2>, Isa>;

template <class T, class Isa> struct Product {
    using V = vec<T, Isa>;
    static constexpr std::size_t lanes = traits<V>::lanes;
    static constexpr std::size_t panel_batches = 4, panel = panel_batches * lanes;  // columns
    static constexpr int tile_rows = has_32_registers<V> ? 6 : 3;
    static constexpr std::size_t depth_block = (has_32_registers<V> ? 32768 : 16384) / (panel * sizeof(T));  // of k
    // Rows. Their part of c stays in the L2 cache from one depth block to the next.
    static constexpr std::size_t row_block = 192;

    static std::size_t panels(std::size_t columns) { return (columns + panel - 1) / panel; }
    // Elements of the packed matrix [depth, columns]. The last panel is padded with zeros.
    static std::size_t size(std::size_t depth, std::size_t columns) { return panels(columns) * panel * depth; }

    static void pack(const void* weights, std::size_t rows, std::size_t width, std::size_t first_row, bool transposed,
                     void* packed)
    {
        const auto row = [&](std::size_t i) { return static_cast<const T*>(weights) + (i + first_row) % rows * width; };
        const std::size_t depth = transposed ? rows : width, columns = transposed ? width : rows;
        T* to = static_cast<T*>(packed);
        if (columns % panel) std::fill_n(to + (panels(columns) - 1) * panel * depth, panel * depth, T(0));
        for (std::size_t n = 0; n < columns; n += panel, to += panel * depth) {
            const std::size_t count = std::min(panel, columns - n);
            if (transposed)
                for (std::size_t k = 0; k < depth; ++k) copy_row(row(k) + n, count, to + k * panel);
            else
                for (std::size_t k = 0; k < depth; k += depth_block)
                    transpose_block(row, n, count, k, std::min(k + depth_block, depth), to);
        }
    }

    static void copy_row(const T* from, std::size_t count, T* to)
    {
        if (count < panel) return static_cast<void>(std::memcpy(to, from, count * sizeof(T)));
#pragma GCC unroll 4
        for (std::size_t j = 0; j < panel; j += lanes) write(to + j, read<V>(from + j));
    }

    // AVX-512 transposes with AVX2's instructions: xsimd's AVX-512 transposition takes 3 to 4 times as long.
    using S = vec<T, square_isa<Isa>>;
    // to[k, j] = row(n + j)[k] for k in [begin, end), j < count. Squares of lanes x lanes are transposed in registers.
    template <class Row>
    static void transpose_block(Row row, std::size_t n, std::size_t count, std::size_t begin, std::size_t end, T* to)
    {
        constexpr std::size_t side = traits<S>::lanes;
        std::size_t j = 0;
        for (; j + side <= count; j += side) {
            const T* rows[side];
            for (std::size_t i = 0; i < side; ++i) rows[i] = row(n + j + i);
            std::size_t k = begin;
            for (; k + side <= end; k += side) {
                S square[side];
#pragma GCC unroll 16
                for (std::size_t i = 0; i < side; ++i) square[i] = read<S>(rows[i] + k);
                if constexpr (!is_scalar<S>) xsimd::transpose(square, square + side);
#pragma GCC unroll 16
                for (std::size_t i = 0; i < side; ++i) write(to + (k + i) * panel + j, square[i]);
            }
            for (; k < end; ++k)
                for (std::size_t i = 0; i < side; ++i) to[k * panel + j + i] = rows[i][k];
        }
        for (; j < count; ++j)
            for (std::size_t k = begin; k < end; ++k) to[k * panel + j] = row(n + j)[k];
    }

    // c[R, P panels] += a[R, depth] b. Strides: elements between rows of a and c, and between panels of b.
    template <int R, int P>
    [[gnu::noinline]] static void tile(const T* a, std::size_t a_stride, const T* b, std::size_t b_stride,
                                       std::size_t depth, T* c, std::size_t c_stride)
    {
        V sums[R][P * panel_batches];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * panel_batches; ++j) sums[r][j] = read<V>(c + r * c_stride + j * lanes);
        for (std::size_t k = 0; k < depth; ++k) {
            V x[R];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) x[r] = V(a[r * a_stride + k]);
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * panel_batches; ++j) {
                const V w = read<V>(b + j / panel_batches * b_stride + k * panel + j % panel_batches * lanes);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) sums[r][j] = fma(x[r], w, sums[r][j]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * panel_batches; ++j) write(c + r * c_stride + j * lanes, sums[r][j]);
    }

    // The same for c of `columns` columns. If they are fewer than P panels, a padded copy of c goes through the tile.
    template <int R, int P = 1>
    static void partial_tile(const T* a, std::size_t a_stride, const T* b, std::size_t b_stride, std::size_t depth,
                             T* c, std::size_t c_stride, std::size_t columns)
    {
        if (columns >= P * panel) return tile<R, P>(a, a_stride, b, b_stride, depth, c, c_stride);
        T padded[R * P * panel] = {};
        for (int r = 0; r < R; ++r) std::memcpy(padded + r * P * panel, c + r * c_stride, columns * sizeof(T));
        tile<R, P>(a, a_stride, b, b_stride, depth, padded, P * panel);
        for (int r = 0; r < R; ++r) std::memcpy(c + r * c_stride, padded + r * P * panel, columns * sizeof(T));
    }

    using Tile = void (*)(const T*, std::size_t, const T*, std::size_t, std::size_t, T*, std::size_t, std::size_t);
    template <int... R> static constexpr auto make_tiles(std::integer_sequence<int, R...>)
    {
        return std::array<Tile, sizeof...(R) + 1>{nullptr, partial_tile<R + 1>...};
    }

    // c[rows, columns] += a[rows, depth] b, with b packed
    static void add(std::size_t rows, std::size_t depth, std::size_t columns, const T* a, std::size_t a_stride,
                    const T* b, T* c, std::size_t c_stride, bool last_panel_first = false)
    {
        if (rows == 1) return add_row(depth, columns, a, b, c, last_panel_first);
        const std::size_t count = panels(columns), b_stride = panel * depth;
        for (std::size_t first = 0; first < rows; first += row_block)
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t p = last_panel_first ? count - 1 - i : i, n = p * panel;
                for (std::size_t k = 0; k < depth; k += depth_block)
                    add_rows(std::min(row_block, rows - first), std::min(depth_block, depth - k), columns - n,
                             a + first * a_stride + k, a_stride, b + p * b_stride + k * panel, c + first * c_stride + n,
                             c_stride);
            }
    }

    // All rows times one depth block of one panel, in tiles of about the same height: 8 rows are 4 + 4 and not 6 + 2.
    static void add_rows(std::size_t rows, std::size_t depth, std::size_t columns, const T* a, std::size_t a_stride,
                         const T* b, T* c, std::size_t c_stride)
    {
        for (std::size_t tiles = (rows + tile_rows - 1) / tile_rows; tiles > 0; --tiles) {
            const std::size_t count = (rows + tiles - 1) / tiles;
            static constexpr auto tiles_of_height = make_tiles(std::make_integer_sequence<int, tile_rows>());
            tiles_of_height[count](a, a_stride, b, 0, depth, c, c_stride, columns);
            rows -= count;
            a += count * a_stride;
            c += count * c_stride;
        }
    }

    // One row, two panels at a time.
    static void add_row(std::size_t depth, std::size_t columns, const T* a, const T* b, T* c, bool last_panel_first)
    {
        const std::size_t b_stride = panel * depth, count = (panels(columns) + 1) / 2;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t p = 2 * (last_panel_first ? count - 1 - i : i), n = p * panel;
            if (n + panel < columns) partial_tile<1, 2>(a, 0, b + p * b_stride, b_stride, depth, c + n, 0, columns - n);
            else partial_tile<1>(a, 0, b + p * b_stride, 0, depth, c + n, 0, columns - n);
        }
    }
};

}  // namespace
}  // namespace isrlu
