// The gates and the state's update of LSTM and GRU, forward and backward, for rows of hidden units.
//
//   LSTM   i, f, o = s(.), g = t(.)       c' = f c + i g              h' = o t(c')
//   GRU    r, z = s(.), n = t(x + r q)    h' = n + z (h - n)          q the state's part of n's argument
//
// s and t are isru_sigmoid and isru, or sigmoid and tanh. Of a step nothing but these outputs is kept: f' follows from f.
//
// Error: gates need absolute accuracy only, so float32 takes the estimate and one Newton step, and the sigmoid is 1/2 + isru(x; 1/4)/4 on both
// sides: at most 4e-7 off. float64 takes the full formula. The slope of isru from its output, (1 - y^2)^(3/2), is off by 1e-4 of itself at x = 30.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "activation/formula.hpp"
#include "recurrent/layer.hpp"
#include "simd/exponential.hpp"

namespace isrlu {
namespace {

template <Gates, class V> struct GateFunctions {
    static constexpr bool precise = is_double<V> || estimate_of<isa_t<V>>() == Estimate::bits8;
    static constexpr Method method = precise ? Method::full : Method::newton1;
    Alpha<V> one{constant<V>(1)}, quarter{constant<V>(0.25)};

    V tanh(V x) const { return isru<method, Alphas::unit>(within_limit<Function::isru>(x, one), one); }
    V sigmoid(V x) const
    {
        return fma(isru<method, Alphas::one>(within_limit<Function::isru>(x, quarter), quarter), constant<V>(0.25),
                   constant<V>(0.5));
    }
    V through_tanh(V y, V grad) const { return backward_from_output<Function::isru, Alphas::unit>(y, grad, one); }
    V through_sigmoid(V y, V grad) const
    {
        return backward_from_output<Function::isru_sigmoid, Alphas::one>(y, grad, quarter);
    }
};
template <class V> struct GateFunctions<Gates::exact, V> {
    V tanh(V x) const { return exact_tanh(x); }
    V sigmoid(V x) const { return exact_sigmoid(x); }
    V through_tanh(V y, V grad) const { return grad * fnma(y, y, constant<V>(1)); }
    V through_sigmoid(V y, V grad) const { return grad * (y * (constant<V>(1) - y)); }
};

// One value of every row and unit: a block of memory whose rows are `stride` apart.
template <class T> struct Field {
    T* data;
    std::size_t stride;
    T* at(std::size_t row, std::size_t unit) const { return data + row * stride + unit; }
};
template <class T, std::size_t N> using Fields = std::array<Field<T>, N>;

// outputs = f(inputs) for whole batches of units; an output may be an input. Everything is inlined here, and this nowhere.
template <class V, class F, class T, std::size_t... I, std::size_t... O>
[[gnu::flatten, gnu::noinline]] void whole_rows(F f, std::size_t rows, std::size_t units,
                                                const Fields<const T, sizeof...(I)>& in,
                                                const Fields<T, sizeof...(O)>& out, std::index_sequence<I...>,
                                                std::index_sequence<O...>)
{
    for (std::size_t row = 0; row < rows; ++row) {
        const T* const from[] = {in[I].at(row, 0)...};
        T* const to[] = {out[O].at(row, 0)...};
        for (std::size_t unit = 0; unit < units; unit += traits<V>::lanes) {
            const std::array<V, sizeof...(O)> y = f(std::array<V, sizeof...(I)>{read<V>(from[I] + unit)...});
            (write(to[O] + unit, y[O]), ...);
        }
    }
}

// The same for any number of units: the last ones go through a padded batch.
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

// The columns of a row of gates [4 hidden].
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

    // gates: i f g o, arguments on entry, outputs on return if they are to be kept
    static void forward(std::size_t rows, std::size_t hidden, T* gates, const T* h, const T* c, T* new_h, T* new_c,
                        bool keep)
    {
        static_cast<void>(h);  // has entered the gates' arguments
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
        const auto brief = [step](const std::array<V, 5>& x) {
            const auto y = step(x);
            return std::array<V, 2>{y[0], y[1]};
        };
        each_unit<V>(brief, rows, hidden, in, Fields<T, 2>{Field<T>{new_h, hidden}, {new_c, hidden}});
    }

    // slopes: gradients of the gates' arguments; dh, dc: on entry those of h' and c' from the later steps, on return of h (the product is still
    // to be added) and c
    static void backward(std::size_t rows, std::size_t hidden, const T* gates, const T* h, const T* c, const T* new_c,
                         const T* grad_y, T* slopes, T* dh, T* dc)
    {
        static_cast<void>(h);
        const GateFunctions<K, V> functions;
        const auto step = [functions](const std::array<V, 9>& in) {
            const auto [i, f, g, o, old, cell, above, later, dc] = in;
            const V grad = above + later, out = functions.tanh(cell);
            const V d = dc + functions.through_tanh(out, grad * o);
            return std::array<V, 6>{functions.through_sigmoid(i, d * g),
                                    functions.through_sigmoid(f, d * old),
                                    functions.through_tanh(g, d * i),
                                    functions.through_sigmoid(o, grad * out),
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

    // gates: q r z n, where n holds the input's part on entry
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
            const auto [q, r, z, n, old, above, later] = in;
            const V grad = above + later;
            const V dn = functions.through_tanh(n, grad * (constant<V>(1) - z));
            return std::array<V, 5>{dn * r, functions.through_sigmoid(r, dn * q),
                                    functions.through_sigmoid(z, grad * (old - n)), dn, grad * z};
        };
        const auto in =
            join(all_columns(gates, hidden), Fields<const T, 3>{{{h, hidden}, {grad_y, hidden}, {dh, hidden}}});
        each_unit<V>(step, rows, hidden, in, join(all_columns(slopes, hidden), Fields<T, 1>{{{dh, hidden}}}));
    }
};

}  // namespace
}  // namespace isrlu
