// The gates and the new states of LSTM and GRU, forward and backward, for rows of hidden units.
//
//   LSTM   i, f, o = s(.), g = t(.)       c' = f c + i g              h' = o t(c')
//   GRU    r, z = s(.), n = t(x + r q)    h' = n + z (h - n)          x, q: input's and state's part of n's argument
//
// s and t are isru_sigmoid and isru (gates="isru") or sigmoid and tanh (gates="exact"). The backward pass needs only
// the outputs of s and t: the derivative follows from the output.
//
// Error: gates need absolute accuracy only. float32 takes the estimate and one Newton step (NEON: the full formula),
// and the sigmoid 1/2 + isru(x; 1/4)/4 for both signs: absolute error at most 4e-7. float64 takes the full formula.
// The derivative of isru from its output, (1 - y^2)^(3/2), has a relative error of 1e-4 at x = 30.
// Cost: docs/rnn.md, "Figures".
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "activation/functions/isru_sigmoid.hpp"
#include "recurrent/layer.hpp"
#include "simd/exponential.hpp"

namespace isrlu {
namespace {

template <Gates, class V> struct GateFunctions {
    static constexpr bool needs_full = is_double<V> || estimate_of<isa_t<V>>() == Estimate::bits8;
    static constexpr Method method = needs_full ? Method::full : Method::newton1;
    Alpha<V> one{constant<V>(1)}, quarter{constant<V>(0.25)};

    V tanh(V x) const { return isru<method, AlphaMode::unit>(clamp_to_limit(x, one), one); }
    V sigmoid(V x) const
    {
        return fma(isru<method, AlphaMode::uniform>(clamp_to_limit(x, quarter), quarter), constant<V>(0.25),
                   constant<V>(0.5));
    }
    // grad times the derivative, from the output y
    V tanh_backward(V y, V grad) const { return grad * slope_from_output<AlphaMode::unit>(y, one); }
    V sigmoid_backward(V y, V grad) const
    {
        return Formula<Function::isru_sigmoid>::backward_from_output<AlphaMode::uniform>(y, grad, quarter);
    }
};
template <class V> struct GateFunctions<Gates::exact, V> {
    V tanh(V x) const { return exact_tanh(x); }
    V sigmoid(V x) const { return exact_sigmoid(x); }
    V tanh_backward(V y, V grad) const { return grad * fnma(y, y, constant<V>(1)); }
    V sigmoid_backward(V y, V grad) const { return grad * (y * (constant<V>(1) - y)); }
};

// A matrix [rows, units] in memory, with consecutive rows `stride` elements apart.
template <class T> struct Field {
    T* data;
    std::size_t stride;
    T* at(std::size_t row, std::size_t unit) const { return data + row * stride + unit; }
};
template <class T, std::size_t N> using Fields = std::array<Field<T>, N>;

// out = f(in) for a number of units that is a multiple of the lanes. An output may be the same memory as an input.
// flatten and noinline: as for map_batches in array_loops.hpp.
template <class V, class F, class T, std::size_t... I, std::size_t... O>
[[gnu::flatten, gnu::noinline]] void whole_rows(F f, std::size_t rows, std::size_t units,
                                                const Fields<const T, sizeof...(I)>& in,
                                                const Fields<T, sizeof...(O)>& out, std::index_sequence<I...>,
                                                std::index_sequence<O...>)
{
    for (std::size_t row = 0; row < rows; ++row) {
        const T* const src[] = {in[I].at(row, 0)...};
        T* const dst[] = {out[O].at(row, 0)...};
        for (std::size_t unit = 0; unit < units; unit += traits<V>::lanes) {
            const std::array<V, sizeof...(O)> y = f(std::array<V, sizeof...(I)>{read<V>(src[I] + unit)...});
            (write(dst[O] + unit, y[O]), ...);
        }
    }
}

// The same for any number of units. The last ones go through a padded batch.
template <class V, class F, class T, std::size_t I, std::size_t O>
void each_unit(F f, std::size_t rows, std::size_t units, const Fields<const T, I>& in, const Fields<T, O>& out)
{
    constexpr std::size_t lanes = traits<V>::lanes;
    constexpr std::make_index_sequence<I> inputs;
    constexpr std::make_index_sequence<O> outputs;
    const std::size_t rest = units % lanes, whole = units - rest;
    if (whole) whole_rows<V>(f, rows, whole, in, out, inputs, outputs);
    if (!rest) return;
    T read_buffer[I][lanes] = {}, write_buffer[O][lanes];
    Fields<const T, I> padded_in;
    Fields<T, O> padded_out;
    for (std::size_t i = 0; i < I; ++i) padded_in[i] = {read_buffer[i], 0};
    for (std::size_t o = 0; o < O; ++o) padded_out[o] = {write_buffer[o], 0};
    for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = 0; i < I; ++i) std::memcpy(read_buffer[i], in[i].at(row, whole), rest * sizeof(T));
        whole_rows<V>(f, 1, lanes, padded_in, padded_out, inputs, outputs);
        for (std::size_t o = 0; o < O; ++o) std::memcpy(out[o].at(row, whole), write_buffer[o], rest * sizeof(T));
    }
}

// Column k of the gates [rows, 4 hidden], a matrix [rows, hidden].
template <class P> Field<P> column(P* gates, std::size_t hidden, std::size_t k)
{
    return {gates + k * hidden, 4 * hidden};
}
template <class P> Fields<P, 4> all_columns(P* gates, std::size_t hidden)
{
    return {column(gates, hidden, 0), column(gates, hidden, 1), column(gates, hidden, 2), column(gates, hidden, 3)};
}
template <class T, std::size_t A, std::size_t B> Fields<T, A + B> join(const Fields<T, A>& a, const Fields<T, B>& b)
{
    Fields<T, A + B> both;
    std::copy(b.begin(), b.end(), std::copy(a.begin(), a.end(), both.begin()));
    return both;
}

template <Gates K, class T, class Isa> struct LstmCell {
    using V = vec<T, Isa>;

    // gates: columns i f g o. Arguments of s and t on entry; if `keep`, their outputs on return.
    static void forward(std::size_t rows, std::size_t hidden, T* gates, const T* h, const T* c, T* new_h, T* new_c,
                        bool keep)
    {
        static_cast<void>(h);  // already part of the gates' arguments
        const GateFunctions<K, V> functions;
        const auto step = [functions](const std::array<V, 5>& in) {
            using namespace lstm;
            const V input = functions.sigmoid(in[i]), forget = functions.sigmoid(in[f]),
                    candidate = functions.tanh(in[g]), output = functions.sigmoid(in[o]);
            const V cell = fma(forget, in[4], input * candidate);
            return std::array<V, 6>{output * functions.tanh(cell), cell, input, forget, candidate, output};
        };
        const auto gate = all_columns(gates, hidden);
        const auto in = join(all_columns<const T>(gates, hidden), Fields<const T, 1>{{{c, hidden}}});
        if (keep)
            return each_unit<V>(step, rows, hidden, in, join(Fields<T, 2>{{{new_h, hidden}, {new_c, hidden}}}, gate));
        const auto states_only = [step](const std::array<V, 5>& x) {
            const auto y = step(x);
            return std::array<V, 2>{y[0], y[1]};
        };
        each_unit<V>(states_only, rows, hidden, in, Fields<T, 2>{Field<T>{new_h, hidden}, {new_c, hidden}});
    }

    // slopes: gradients of the gates' arguments. dh, dc: on entry the gradients of h' and c' from later steps; on
    // return those of h and c, dh without the product slopes * W_hh, which the caller adds.
    static void backward(std::size_t rows, std::size_t hidden, const T* gates, const T* h, const T* c, const T* new_c,
                         const T* grad_y, T* slopes, T* dh, T* dc)
    {
        static_cast<void>(h);
        const GateFunctions<K, V> functions;
        const auto step = [functions](const std::array<V, 9>& in) {
            const auto [i, f, g, o, previous_c, cell, grad_y, grad_later, dc] = in;
            const V grad = grad_y + grad_later, out = functions.tanh(cell);
            const V d = dc + functions.tanh_backward(out, grad * o);
            return std::array<V, 6>{functions.sigmoid_backward(i, d * g),
                                    functions.sigmoid_backward(f, d * previous_c),
                                    functions.tanh_backward(g, d * i),
                                    functions.sigmoid_backward(o, grad * out),
                                    constant<V>(0),
                                    d * f};
        };
        const auto in =
            join(all_columns(gates, hidden),
                 Fields<const T, 5>{{{c, hidden}, {new_c, hidden}, {grad_y, hidden}, {dh, hidden}, {dc, hidden}}});
        each_unit<V>(step, rows, hidden, in,
                     join(all_columns(slopes, hidden), Fields<T, 2>{{{dh, hidden}, {dc, hidden}}}));
    }
};

template <Gates K, class T, class Isa> struct GruCell {
    using V = vec<T, Isa>;

    // gates: columns q r z n. On entry n holds the input's part of its argument.
    static void forward(std::size_t rows, std::size_t hidden, T* gates, const T* h, const T*, T* new_h, T*, bool keep)
    {
        const GateFunctions<K, V> functions;
        const auto step = [functions](const std::array<V, 5>& in) {
            const V reset = functions.sigmoid(in[gru::r]), update = functions.sigmoid(in[gru::z]);
            const V candidate = functions.tanh(fma(reset, in[gru::q], in[gru::n]));
            return std::array<V, 4>{fma(update, in[4] - candidate, candidate), reset, update, candidate};
        };
        const auto in = join(all_columns<const T>(gates, hidden), Fields<const T, 1>{{{h, hidden}}});
        if (keep)
            return each_unit<V>(step, rows, hidden, in,
                                Fields<T, 4>{Field<T>{new_h, hidden}, column(gates, hidden, gru::r),
                                             column(gates, hidden, gru::z), column(gates, hidden, gru::n)});
        each_unit<V>([step](const std::array<V, 5>& x) { return std::array<V, 1>{step(x)[0]}; }, rows, hidden, in,
                     Fields<T, 1>{Field<T>{new_h, hidden}});
    }

    static void backward(std::size_t rows, std::size_t hidden, const T* gates, const T* h, const T*, const T*,
                         const T* grad_y, T* slopes, T* dh, T*)
    {
        const GateFunctions<K, V> functions;
        const auto step = [functions](const std::array<V, 7>& in) {
            const auto [q, r, z, n, previous_h, grad_y, grad_later] = in;
            const V grad = grad_y + grad_later;
            const V dn = functions.tanh_backward(n, grad * (constant<V>(1) - z));
            return std::array<V, 5>{dn * r, functions.sigmoid_backward(r, dn * q),
                                    functions.sigmoid_backward(z, grad * (previous_h - n)), dn, grad * z};
        };
        const auto in =
            join(all_columns(gates, hidden), Fields<const T, 3>{{{h, hidden}, {grad_y, hidden}, {dh, hidden}}});
        each_unit<V>(step, rows, hidden, in, join(all_columns(slopes, hidden), Fields<T, 1>{{{dh, hidden}}}));
    }
};

}  // namespace
}  // namespace isrlu
