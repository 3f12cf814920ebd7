// c += a b for a few rows of a and a matrix b that is packed once and used many times.
//
// A tile of c fills the vector registers. With 32 of them (AVX-512, NEON) it is 6 rows by 4 batches: 24 sums, 6
// broadcast elements of a, 1 batch of b. With 16 it is 3 rows by 4 batches. b is packed in panels of 4 batches of
// columns. A depth block of a panel stays in the L1 cache for all rows: 16 KB for tiles of 3 rows; 32 KB for tiles of 6
// rows, which read b half as often and lose little if a part of it comes from the L2 cache. A single row of a takes two
// panels at once: 4 dependent chains of FMA do not hide the FMA's latency, 8 do.
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

    // c[., columns] += a[., depth] b, with b packed. With `start`: c = start + a b, the same row for every row of c.
    struct Factors {
        std::size_t depth, columns;
        const T* b;
        std::size_t a_stride, c_stride;  // elements between rows
        const T* start = nullptr;
    };
    struct Rows {  // consecutive rows of a and of c
        std::size_t count;
        const T* a;
        T* c;
    };

    static std::size_t panels(std::size_t columns) { return (columns + panel - 1) / panel; }
    // Elements of the packed matrix [depth, columns]. The last panel is padded with zeros.
    static std::size_t size(std::size_t depth, std::size_t columns) { return panels(columns) * panel * depth; }

    static void pack(const void* weights, std::size_t rows, std::size_t width, std::size_t first_row, bool transposed,
                     std::size_t first_panel, std::size_t last_panel, void* packed)
    {
        const auto row = [&](std::size_t i) { return static_cast<const T*>(weights) + (i + first_row) % rows * width; };
        const std::size_t depth = transposed ? rows : width, columns = transposed ? width : rows;
        T* to = static_cast<T*>(packed) + first_panel * panel * depth;
        for (std::size_t p = first_panel; p < last_panel; ++p, to += panel * depth) {
            const std::size_t n = p * panel;
            const std::size_t count = std::min(panel, columns - n);
            if (count < panel) std::fill_n(to, panel * depth, T(0));
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

    // sums[R][B batches] += a b. `by_columns`: element k of row r is a[k * a_stride + r], else a[r * a_stride + k].
    // b_stride: elements between panels.
    template <bool by_columns, int R, int B>
    [[gnu::always_inline]] static void accumulate(V (&sums)[R][B], const T* a, std::size_t a_stride, const T* b,
                                                  std::size_t b_stride, std::size_t depth)
    {
        for (std::size_t k = 0; k < depth; ++k) {
            V x[R];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r)
                x[r] = V(by_columns ? a[k * a_stride + static_cast<std::size_t>(r)] : a[r * a_stride + k]);
#pragma GCC unroll 8
            for (std::size_t j = 0; j < B; ++j) {
                const V w = read<V>(b + j / panel_batches * b_stride + k * panel + j % panel_batches * lanes);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) sums[r][j] = fma(x[r], w, sums[r][j]);
            }
        }
    }

    // c[R, B batches] = from + a[R, depth] b. Strides: elements between rows, and between panels of b.
    template <int R, int B>
    [[gnu::noinline]] static void tile(const T* a, std::size_t a_stride, const T* b, std::size_t b_stride,
                                       std::size_t depth, const T* from, std::size_t from_stride, T* c,
                                       std::size_t c_stride)
    {
        V sums[R][B];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < B; ++j) sums[r][j] = read<V>(from + r * from_stride + j * lanes);
        accumulate<false>(sums, a, a_stride, b, b_stride, depth);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < B; ++j) write(c + r * c_stride + j * lanes, sums[r][j]);
    }

    // The same for c of `columns` columns. If they are fewer than B batches, a padded copy of c goes through the tile.
    template <int R, int B>
    static void padded_tile(const T* a, std::size_t a_stride, const T* b, std::size_t b_stride, std::size_t depth,
                            const T* from, std::size_t from_stride, T* c, std::size_t c_stride, std::size_t columns)
    {
        constexpr std::size_t width = B * lanes;
        if (columns >= width) return tile<R, B>(a, a_stride, b, b_stride, depth, from, from_stride, c, c_stride);
        T padded[R * width] = {};
        for (int r = 0; r < R; ++r) std::memcpy(padded + r * width, from + r * from_stride, columns * sizeof(T));
        tile<R, B>(a, a_stride, b, b_stride, depth, padded, width, padded, width);
        for (int r = 0; r < R; ++r) std::memcpy(c + r * c_stride, padded + r * width, columns * sizeof(T));
    }

    // P panels, or half a panel if there are no more columns.
    template <int R, int P = 1>
    static void partial_tile(const T* a, std::size_t a_stride, const T* b, std::size_t b_stride, std::size_t depth,
                             const T* from, std::size_t from_stride, T* c, std::size_t c_stride, std::size_t columns)
    {
        constexpr int batches = P * panel_batches;
        const auto f = P == 1 && columns <= panel / 2 ? padded_tile<R, batches / 2> : padded_tile<R, batches>;
        f(a, a_stride, b, b_stride, depth, from, from_stride, c, c_stride, columns);
    }

    using Tile = void (*)(const T*, std::size_t, const T*, std::size_t, std::size_t, const T*, std::size_t, T*,
                          std::size_t, std::size_t);
    template <int... R> static constexpr auto make_tiles(std::integer_sequence<int, R...>)
    {
        return std::array<Tile, sizeof...(R) + 1>{nullptr, partial_tile<R + 1>...};
    }

    // Panels [first, last) of b and c, for ranges of rows. Each depth block of a panel is used for all of them.
    static void add(const Factors& f, const Rows* ranges, std::size_t range_count, std::size_t first, std::size_t last,
                    bool last_panel_first = false)
    {
        if (range_count == 1 && ranges->count == 1) return add_row(f, *ranges, first, last, last_panel_first);
        for (std::size_t i = first; i < last; ++i) {
            const std::size_t p = last_panel_first ? first + last - 1 - i : i;
            for (std::size_t k = 0; k < f.depth; k += depth_block)
                for (std::size_t r = 0; r < range_count; ++r) add_rows(f, ranges[r], p, k);
        }
    }

    // All rows times the depth block at k of panel p, in tiles of about the same height: 8 rows are 4 + 4, not 6 + 2.
    static void add_rows(const Factors& f, Rows rows, std::size_t p, std::size_t k)
    {
        static constexpr auto tiles_of_height = make_tiles(std::make_integer_sequence<int, tile_rows>());
        const std::size_t n = p * panel, depth = std::min(depth_block, f.depth - k);
        const T* b = f.b + n * f.depth + k * panel;
        const bool first = f.start && k == 0;
        for (std::size_t tiles = (rows.count + tile_rows - 1) / tile_rows; tiles > 0; --tiles) {
            const std::size_t height = (rows.count + tiles - 1) / tiles;
            tiles_of_height[height](rows.a + k, f.a_stride, b, 0, depth, first ? f.start + n : rows.c + n,
                                    first ? 0 : f.c_stride, rows.c + n, f.c_stride, f.columns - n);
            rows = {rows.count - height, rows.a + height * f.a_stride, rows.c + height * f.c_stride};
        }
    }

    // One row, two panels at a time.
    static void add_row(const Factors& f, const Rows& row, std::size_t first, std::size_t last, bool last_panel_first)
    {
        const std::size_t b_stride = panel * f.depth, count = (last - first + 1) / 2;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t p = first + 2 * (last_panel_first ? count - 1 - i : i), n = p * panel;
            const T *b = f.b + p * b_stride, *from = (f.start ? f.start : row.c) + n;
            if (p + 1 < last) partial_tile<1, 2>(row.a, 0, b, b_stride, f.depth, from, 0, row.c + n, 0, f.columns - n);
            else partial_tile<1>(row.a, 0, b, 0, f.depth, from, 0, row.c + n, 0, f.columns - n);
        }
    }
};

}  // namespace
}  // namespace isrlu
