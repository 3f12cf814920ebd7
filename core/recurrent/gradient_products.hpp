// The products that follow the last step of a backward pass: c = a b for many rows (the gradient of the inputs), and
// c += a^T b, the sum over all rows of slopes times inputs (the gradient of a weight).
//
// For a^T b, b is packed as in product.hpp, and a is read by columns. The sum over a depth block starts at 0 and is
// then added to c: with thousands of rows this is more accurate than one running sum. The order of all additions
// depends on the number of rows alone.
#pragma once

#include "recurrent/layer.hpp"
#include "recurrent/product.hpp"

namespace isrlu {
namespace {

template <class T, class Isa> struct GradientLoops {
    using P = Product<T, Isa>;
    using V = typename P::V;

    static constexpr std::size_t block_rows = 96;  // of a and c

    static void multiply(const RowProduct& f, std::size_t first, std::size_t last)
    {
        for (std::size_t begin = first, end; begin < last; begin = end) {
            end = std::min(begin + block_rows, last);
            T* c = static_cast<T*>(f.c) + begin * f.columns;
            std::fill_n(c, (end - begin) * f.columns, T(0));
            const typename P::Rows rows{end - begin, static_cast<const T*>(f.a) + begin * f.a_stride, c};
            P::add({f.depth, f.columns, static_cast<const T*>(f.b), f.a_stride, f.columns}, &rows, 1, 0,
                   P::panels(f.columns));
        }
    }

    // c[R, B batches] += a^T[R, depth] b
    template <int R, int B>
    [[gnu::noinline]] static void add_tile(const T* a, std::size_t a_stride, const T* b, std::size_t depth, T* c,
                                           std::size_t c_stride)
    {
        V sums[R][B];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < B; ++j) sums[r][j] = constant<V>(0);
        P::template accumulate<true>(sums, a, a_stride, b, 0, depth);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
            for (std::size_t j = 0; j < B; ++j) {
                T* to = c + r * c_stride + j * P::lanes;
                write(to, read<V>(to) + sums[r][j]);
            }
    }

    // The same for c of `columns` columns, at most a panel.
    template <int R>
    static void add_partial_tile(const T* a, std::size_t a_stride, const T* b, std::size_t depth, T* c,
                                 std::size_t c_stride, std::size_t columns)
    {
        constexpr int batches = P::panel_batches;
        const bool half = columns <= P::panel / 2;
        const std::size_t width = half ? P::panel / 2 : P::panel;
        const auto tile = half ? add_tile<R, batches / 2> : add_tile<R, batches>;
        if (columns >= width) return tile(a, a_stride, b, depth, c, c_stride);
        T padded[R * P::panel] = {};
        for (int r = 0; r < R; ++r) std::memcpy(padded + r * width, c + r * c_stride, columns * sizeof(T));
        tile(a, a_stride, b, depth, padded, width);
        for (int r = 0; r < R; ++r) std::memcpy(c + r * c_stride, padded + r * width, columns * sizeof(T));
    }

    using Tile = void (*)(const T*, std::size_t, const T*, std::size_t, T*, std::size_t, std::size_t);
    template <int... R> static constexpr auto make_tiles(std::integer_sequence<int, R...>)
    {
        return std::array<Tile, sizeof...(R) + 1>{nullptr, add_partial_tile<R + 1>...};
    }

    static constexpr std::size_t group = 96;  // columns of a that are copied together: whole tiles and whole batches

    // Rows [first, last) of c, which are columns of a.
    static void add_outer(const OuterProduct& f, std::size_t first, std::size_t last)
    {
        for (std::size_t k = 0; k < f.depth; k += P::depth_block)
            for (std::size_t i = first; i < last; i += group) add_block(f, k, i, std::min(group, last - i));
    }

    // `count` rows of c from row `first` on, one depth block. Each panel of it is used for all of these rows. a is
    // copied: its own rows are often a multiple of 4 KB apart and would replace each other in the L1 cache.
    static void add_block(const OuterProduct& f, std::size_t k, std::size_t first, std::size_t count)
    {
        static constexpr auto tiles_of_height = make_tiles(std::make_integer_sequence<int, P::tile_rows>());
        const std::size_t depth = std::min(P::depth_block, f.depth - k);
        const T* from = static_cast<const T*>(f.a) + k * f.a_stride + first;
        alignas(64) T a[P::depth_block * group];
        for (std::size_t row = 0; row < depth; ++row)
            std::memcpy(a + row * group, from + row * f.a_stride, count * sizeof(T));
        for (std::size_t n = 0; n < f.columns; n += P::panel)
            for (std::size_t i = 0, height; i < count; i += height) {
                height = std::min<std::size_t>(P::tile_rows, count - i);
                tiles_of_height[height](a + i, group, static_cast<const T*>(f.b) + n * f.depth + k * P::panel, depth,
                                        static_cast<T*>(f.c) + (first + i) * f.columns + n, f.columns, f.columns - n);
            }
        if (f.sums) add_sums(a, depth, count, static_cast<T*>(f.sums) + first);
    }

    // sums[i] += the sum over k of a[k, i] for i < count
    static void add_sums(const T* a, std::size_t depth, std::size_t count, T* sums)
    {
        static_assert(group % P::lanes == 0);
        for (std::size_t i = 0; i < count; i += P::lanes) {
            V sum = constant<V>(0);
            for (std::size_t k = 0; k < depth; ++k) sum = sum + read<V>(a + k * group + i);
            T partial[P::lanes];
            write(partial, sum);
            for (std::size_t j = 0; j < std::min(P::lanes, count - i); ++j) sums[i + j] += partial[j];
        }
    }
};

}  // namespace
}  // namespace isrlu
