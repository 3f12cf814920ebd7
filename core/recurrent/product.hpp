// c += a b for a few rows of a and a matrix b that is packed once and used many times.
//
// A tile of c is 3 rows by 4 batches: 12 sums, 3 broadcast elements of a and 1 batch of b fill AVX2's 16 registers. b
// is packed in panels of 4 batches of columns. 16 KB of a panel stay in the L1 cache for all rows. A single row of a
// takes two panels at once: 4 dependent chains of FMA do not hide the FMA's latency, 8 do.
//
// Error: each element is summed over k in increasing order, whatever the tile. A row's result does not depend on the
// other rows.
//
// A caller that multiplies by the same b repeatedly alternates between ascending and descending panels: the panels that
// were read last are still in the cache.
#pragma once

#include <algorithm>

#include "simd/batch.hpp"

namespace isrlu {
namespace {

template <class T, class Isa> struct Product {
    using V = vec<T, Isa>;
    static constexpr std::size_t lanes = traits<V>::lanes;
    static constexpr std::size_t panel_batches = 4, panel = panel_batches * lanes;  // columns
    static constexpr std::size_t depth_block = 16384 / (panel * sizeof(T));  // values of k: 16 KB of a panel
    // Rows. Their part of c stays in the L2 cache from one depth block to the next.
    static constexpr std::size_t row_block = 48;

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
                for (std::size_t k = 0; k < depth; ++k) std::memcpy(to + k * panel, row(k) + n, count * sizeof(T));
            else
                for (std::size_t k = 0; k < depth; k += depth_block)
                    transpose_block(row, n, count, k, std::min(k + depth_block, depth), to);
        }
    }

    // to[k, j] = row(n + j)[k] for k in [begin, end), j < count. Squares of lanes x lanes are transposed in registers.
    template <class Row>
    static void transpose_block(Row row, std::size_t n, std::size_t count, std::size_t begin, std::size_t end, T* to)
    {
        std::size_t j = 0;
        for (; j + lanes <= count; j += lanes) {
            const T* rows[lanes];
            for (std::size_t i = 0; i < lanes; ++i) rows[i] = row(n + j + i);
            std::size_t k = begin;
            for (; k + lanes <= end; k += lanes) {
                V square[lanes];
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i) square[i] = read<V>(rows[i] + k);
                if constexpr (!is_scalar<V>) xsimd::transpose(square, square + lanes);
#pragma GCC unroll 16
                for (std::size_t i = 0; i < lanes; ++i) write(to + (k + i) * panel + j, square[i]);
            }
            for (; k < end; ++k)
                for (std::size_t i = 0; i < lanes; ++i) to[k * panel + j + i] = rows[i][k];
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

    // All rows times one depth block of one panel. 4 rows are 2 + 2 and not 3 + 1.
    static void add_rows(std::size_t rows, std::size_t depth, std::size_t columns, const T* a, std::size_t a_stride,
                         const T* b, T* c, std::size_t c_stride)
    {
        for (std::size_t r = 0; r < rows;) {
            const std::size_t left = rows - r, count = left == 4 || left == 2 ? 2 : std::min<std::size_t>(left, 3);
            const T* x = a + r * a_stride;
            T* y = c + r * c_stride;
            if (count == 3) partial_tile<3>(x, a_stride, b, 0, depth, y, c_stride, columns);
            else if (count == 2) partial_tile<2>(x, a_stride, b, 0, depth, y, c_stride, columns);
            else partial_tile<1>(x, a_stride, b, 0, depth, y, c_stride, columns);
            r += count;
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
