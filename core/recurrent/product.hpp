// c += a b for a few rows of a and a matrix b that is packed once and used many times.
//
// A tile is 3 rows by 4 batches: 12 sums, 3 numbers of a and 1 batch of b fill AVX2's 16 registers. b is packed in panels of 4 batches. A block
// of a panel's depth, 16 KB, stays in the first-level cache while the rows pass by. A single row takes two panels at a time, because 4 chains of
// dependent additions do not hide the latency of an FMA. Each sum runs over k in order, whatever the tile: a row's result does not depend on the
// rows around it.
//
// A caller that multiplies with the same b repeatedly alternates between first-to-last and last-to-first panels: those read last are still in
// the cache then.
#pragma once

#include <algorithm>

#include "simd/batch.hpp"

namespace isrlu {
namespace {

template <class T, class Isa> struct Product {
    using V = vec<T, Isa>;
    static constexpr std::size_t lanes = traits<V>::lanes, wide = 4, panel = wide * lanes;
    static constexpr std::size_t depth_block = 16384 / (panel * sizeof(T));  // 16 KB of a panel
    static constexpr std::size_t row_block =
        48;  // rows whose part of c stays in the second-level cache from one depth block to the next

    static std::size_t panels(std::size_t columns) { return (columns + panel - 1) / panel; }
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

    // to[k, j] = row(n + j)[k] for k in [from, end). Squares of lanes x lanes are transposed in registers.
    template <class Row>
    static void transpose_block(Row row, std::size_t n, std::size_t count, std::size_t from, std::size_t end, T* to)
    {
        std::size_t j = 0;
        for (; j + lanes <= count; j += lanes) {
            const T* rows[lanes];
            for (std::size_t i = 0; i < lanes; ++i) rows[i] = row(n + j + i);
            std::size_t k = from;
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
            for (std::size_t k = from; k < end; ++k) to[k * panel + j] = row(n + j)[k];
    }

    // c[R, P panels] += a[R, depth] b, whose panels are `b_step` apart
    template <int R, int P>
    [[gnu::noinline]] static void tile(const T* a, std::size_t a_step, const T* b, std::size_t b_step,
                                       std::size_t depth, T* c, std::size_t c_step)
    {
        V sums[R][P * wide];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * wide; ++j) sums[r][j] = read<V>(c + r * c_step + j * lanes);
        for (std::size_t k = 0; k < depth; ++k) {
            V x[R];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) x[r] = V(a[r * a_step + k]);
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * wide; ++j) {
                const V w = read<V>(b + j / wide * b_step + k * panel + j % wide * lanes);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) sums[r][j] = fma(x[r], w, sums[r][j]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < P * wide; ++j) write(c + r * c_step + j * lanes, sums[r][j]);
    }

    // The same where c may have fewer columns.
    template <int R, int P = 1>
    static void at(const T* a, std::size_t a_step, const T* b, std::size_t b_step, std::size_t depth, T* c,
                   std::size_t c_step, std::size_t columns)
    {
        if (columns >= P * panel) return tile<R, P>(a, a_step, b, b_step, depth, c, c_step);
        T padded[R * P * panel] = {};
        for (int r = 0; r < R; ++r) std::memcpy(padded + r * P * panel, c + r * c_step, columns * sizeof(T));
        tile<R, P>(a, a_step, b, b_step, depth, padded, P * panel);
        for (int r = 0; r < R; ++r) std::memcpy(c + r * c_step, padded + r * P * panel, columns * sizeof(T));
    }

    // c[rows, columns] += a[rows, depth] b, b packed
    static void add(std::size_t rows, std::size_t depth, std::size_t columns, const T* a, std::size_t a_step,
                    const T* b, T* c, std::size_t c_step, bool last_panel_first = false)
    {
        if (rows == 1) return add_row(depth, columns, a, b, c, last_panel_first);
        const std::size_t count = panels(columns), b_step = panel * depth;
        for (std::size_t from = 0; from < rows; from += row_block)
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t p = last_panel_first ? count - 1 - i : i, n = p * panel;
                for (std::size_t k = 0; k < depth; k += depth_block)
                    add_rows(std::min(row_block, rows - from), std::min(depth_block, depth - k), columns - n,
                             a + from * a_step + k, a_step, b + p * b_step + k * panel, c + from * c_step + n, c_step);
            }
    }

    // All rows with a depth block of one panel.
    static void add_rows(std::size_t rows, std::size_t depth, std::size_t columns, const T* a, std::size_t a_step,
                         const T* b, T* c, std::size_t c_step)
    {
        for (std::size_t r = 0; r < rows;) {
            const std::size_t left = rows - r, count = left == 4 || left == 2 ? 2 : std::min<std::size_t>(left, 3);
            const T* x = a + r * a_step;
            T* y = c + r * c_step;
            if (count == 3) at<3>(x, a_step, b, 0, depth, y, c_step, columns);
            else if (count == 2) at<2>(x, a_step, b, 0, depth, y, c_step, columns);
            else at<1>(x, a_step, b, 0, depth, y, c_step, columns);
            r += count;
        }
    }

    static void add_row(std::size_t depth, std::size_t columns, const T* a, const T* b, T* c, bool last_panel_first)
    {
        const std::size_t b_step = panel * depth, count = (panels(columns) + 1) / 2;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t p = 2 * (last_panel_first ? count - 1 - i : i), n = p * panel;
            if (n + panel < columns) at<1, 2>(a, 0, b + p * b_step, b_step, depth, c + n, 0, columns - n);
            else at<1>(a, 0, b + p * b_step, 0, depth, c + n, 0, columns - n);
        }
    }
};

}  // namespace
}  // namespace isrlu
