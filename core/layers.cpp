#include "layers.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <nanobind/stl/string_view.h>

#include "ahead.hpp"
#include "clock.hpp"
#include "dispatch.hpp"
#include "drive.hpp"
#include "recurrent.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace isrlu {
namespace {

using Address = std::uintptr_t;
void* pointer(Address a) { return reinterpret_cast<void*>(a); }

constexpr std::size_t least_rows = 4;  // of the batch, below which a second thread would read all the weights for too little
constexpr std::size_t least_units = 8192;  // of one step's gates for each thread
constexpr std::size_t least_products = 1 << 21;  // bytes of gates times width of the input, below which a second thread would come too late

template <std::size_t N> int position(const char* what, std::string_view word, const std::string_view (&names)[N], std::size_t count = N)
{
    const auto found = std::find(names, names + count, word);
    if (found == names + count) throw std::invalid_argument("unknown " + std::string(what) + " '" + std::string(word) + "'");
    return static_cast<int>(found - names);
}

// The kernels of one kind of layer as a small number.
int layer_kernel(std::string_view cell, std::string_view gates, std::string_view type)
{
    return (position("cell", cell, cell_names) * gates_count + position("gates", gates, gates_names)) * recurrent_types +
           position("dtype", type, type_names, recurrent_types);
}

struct Chosen {
    const Recurrence* kernels;
    const Packing* packing;
    Cell cell;
    std::size_t size;  // of a number, in bytes
};
Chosen chosen(int kernel, const Kernels& build = active())
{
    if (kernel < 0 || kernel >= cell_count * gates_count * recurrent_types) throw std::out_of_range("no such kernel");
    const LayerKernels& k = layers_of(build);
    const int type = kernel % recurrent_types, cell = kernel / recurrent_types / gates_count;
    return {&k.recurrences[cell][kernel / recurrent_types % gates_count][type], &k.packings[type], Cell(cell), type_sizes[type]};
}

// Memory for the length of one call, in pieces on cache lines. What a thread needs for usual sizes it keeps: fresh memory costs more than what
// is done with it, as the system hands it out page by page.
class Scratch {
public:
    explicit Scratch(std::size_t bytes) : own(bytes > most_kept ? allocate(bytes) : nullptr)
    {
        thread_local Memory kept;
        thread_local std::size_t size = 0;
        if (!own && bytes > size) {
            kept.reset();
            size = 0;
            kept = allocate(bytes);
            size = bytes;
        }
        next = static_cast<char*>(own ? own.get() : kept.get());
    }
    void* take(std::size_t bytes) { return std::exchange(next, next + rounded(bytes)); }
    static std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

private:
    struct Free {
        void operator()(void* p) const { ::operator delete(p, std::align_val_t(64)); }
    };
    using Memory = std::unique_ptr<void, Free>;
    static Memory allocate(std::size_t bytes) { return Memory(::operator new(bytes, std::align_val_t(64))); }
    static constexpr std::size_t most_kept = 1 << 25;
    Memory own;
    char* next;
};

// W_ih or W_hh [columns hidden, width] for the product with inputs or states, or, transposed, with the gradients. `first` is the row to stand first.
struct Weights {
    const Chosen& c;
    const void* weight;
    std::size_t rows, width, first;
    bool transposed;

    std::size_t bytes() const { return Scratch::rounded(c.size * (transposed ? c.packing->size(rows, width) : c.packing->size(width, rows))); }
    const void* packed(Scratch& scratch) const
    {
        void* to = scratch.take(bytes());
        c.packing->pack(weight, rows, width, first, transposed, to);
        return to;
    }
};
Weights input_weights(const Chosen& c, Address weight, std::size_t hidden, std::size_t width)
{
    return {c, pointer(weight), state_columns(c.cell) * hidden, width, 0, false};
}
Weights state_weights(const Chosen& c, Address weight, std::size_t hidden, bool transposed)
{
    return {c, pointer(weight), state_columns(c.cell) * hidden, hidden, c.cell == Cell::gru ? 2 * hidden : 0, transposed};  // q r z from r z n
}

// Initial states; zeros where none were given.
struct States {
    const void *h0, *c0;
    States(Address h, Address c, std::size_t bytes, Scratch& scratch) : h0(pointer(h)), c0(pointer(c))
    {
        if (!h) h0 = c0 = std::memset(scratch.take(bytes), 0, bytes);
    }
};

// Each sequence's row of the last step that it takes part in, copied from [rows, bytes] to [batch, bytes].
void copy_last(const Layer& layer, std::size_t rows, std::size_t bytes, const void* from, void* to)
{
    const auto copy = [&](std::size_t row, std::size_t b, std::size_t count) {
        std::memcpy(static_cast<char*>(to) + b * bytes, static_cast<const char*>(from) + row * bytes, count * bytes);
    };
    if (layer.reverse) return copy(0, 0, layer.batch);
    if (!layer.sizes) return copy(rows - layer.batch, 0, layer.batch);
    std::size_t row = rows, done = 0;
    for (std::size_t t = layer.steps; t-- > 0;) {
        const std::size_t size = static_cast<std::size_t>(layer.sizes[t]);
        row -= size;
        copy(row + done, done, size - done);
        done = size;
    }
}

// `gates` and, of an LSTM, `cells` are null in inference.
void layer_forward(int kernel, std::size_t steps, std::size_t batch, std::size_t hidden, Address sizes, bool reverse, Address w_hh, Address h0, Address c0,
                   std::size_t rows, std::size_t width, Address x, Address w_ih, Address b_ih, Address b_hh, Address gates, Address y, Address cells,
                   Address h, Address c)
{
    const nb::gil_scoped_release release;
    const Chosen k = chosen(kernel);
    const bool keep = gates != 0;
    const std::size_t wide = 4 * hidden * k.size, state = hidden * k.size;
    const Weights of_state = state_weights(k, w_hh, hidden, false), of_input = input_weights(k, w_ih, hidden, width);
    Scratch scratch(of_state.bytes() + of_input.bytes() + Scratch::rounded(wide) + Scratch::rounded(batch * state) + (keep ? 0 : rows * wide));
    const States states(h0, c0, batch * state, scratch);
    void* start = scratch.take(wide);
    k.kernels->start(hidden, pointer(b_ih), pointer(b_hh), start);
    if (c && !keep) std::memcpy(pointer(c), states.c0, batch * state);
    const Layer layer{steps, batch, hidden, static_cast<const std::int64_t*>(pointer(sizes)), reverse, of_state.packed(scratch), states.h0, states.c0};
    const LayerForward call{layer, width, pointer(x), of_input.packed(scratch), start, keep ? pointer(gates) : scratch.take(rows * wide), pointer(y),
                            pointer(keep ? cells : c), keep};
    if (batch <= least_rows && rows * wide * width >= least_products) InputAhead(*k.kernels, call, rows).run();
    else {
        parallel(rows, 1 + least_products / (wide * width), [&](std::size_t from, std::size_t to) { k.kernels->input(call, from, to); });
        parallel(batch, least_rows, [&](std::size_t from, std::size_t to) { k.kernels->forward(call, from, to); });
    }
    copy_last(layer, rows, state, pointer(y), pointer(h));
    if (c && keep) copy_last(layer, rows, state, pointer(cells), pointer(c));
}

// `w_hh` null: of one step, whose product with the slopes is the caller's.
void layer_backward(int kernel, std::size_t steps, std::size_t batch, std::size_t hidden, Address sizes, bool reverse, Address w_hh, Address h0, Address c0,
                    Address gates, Address y, Address cells, Address grad_y, Address slopes, Address dh, Address dc)
{
    const nb::gil_scoped_release release;
    const Chosen k = chosen(kernel);
    const Weights of_state = state_weights(k, w_hh, hidden, true);
    Scratch scratch(of_state.bytes() + Scratch::rounded(batch * hidden * k.size));
    const States states(h0, c0, batch * hidden * k.size, scratch);
    const Layer layer{steps, batch, hidden, static_cast<const std::int64_t*>(pointer(sizes)), reverse, w_hh ? of_state.packed(scratch) : nullptr, states.h0, states.c0};
    const LayerBackward call{layer, pointer(gates), pointer(y), pointer(cells), pointer(grad_y), pointer(slopes), pointer(dh), pointer(dc)};
    parallel(batch, least_rows, [&](std::size_t from, std::size_t to) { k.kernels->backward(call, from, to); });
}

// One step whose products, x and s [rows, columns hidden], are done: new states, and the gates' outputs [rows, 4 hidden], if they are to be kept.
void layer_step(int kernel, std::size_t rows, std::size_t hidden, Address x, Address s, Address h, Address c, Address gates, Address new_h, Address new_c)
{
    const nb::gil_scoped_release release;
    const Chosen k = chosen(kernel);
    const std::size_t state = hidden * k.size, wide = state_columns(k.cell) * state;
    Scratch scratch(gates ? 0 : rows * 4 * state);
    const Address buffer = gates ? gates : reinterpret_cast<Address>(scratch.take(rows * 4 * state));
    parallel(rows, 1 + least_units / hidden, [&](std::size_t from, std::size_t to) {
        const auto at = [&](Address a, std::size_t step) { return a ? pointer(a + from * step) : nullptr; };
        k.kernels->arguments(to - from, hidden, at(x, wide), at(s, wide), at(buffer, 4 * state));
        k.kernels->gates(to - from, hidden, at(buffer, 4 * state), at(h, state), at(c, state), at(new_h, state), at(new_c, state), gates != 0);
    });
}

// Seconds for `loops` calls of the gates' kernel alone, of any instruction set.
double time_gates(std::string_view simd, int kernel, std::size_t rows, std::size_t hidden, Address gates, Address h, Address c, Address new_h,
                  Address new_c, int loops)
{
    const Recurrence& found = *chosen(kernel, kernels_named(simd)).kernels;
    const nb::gil_scoped_release release;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < loops; ++i) found.gates(rows, hidden, pointer(gates), pointer(h), pointer(c), pointer(new_h), pointer(new_c), false);
    return seconds_since(start);
}

}  // namespace

void add_layer_functions(nb::module_& m)
{
    m.def("layer_kernel", layer_kernel, "cell"_a, "gates"_a, "dtype"_a, "The number by which the calls below know a kind of recurrent layer.");
    m.def("layer_forward", layer_forward, "kernel"_a, "steps"_a, "batch"_a, "hidden"_a, "sizes"_a, "reverse"_a, "w_hh"_a, "h0"_a, "c0"_a, "rows"_a,
          "width"_a, "x"_a, "w_ih"_a, "b_ih"_a, "b_hh"_a, "gates"_a, "y"_a, "cells"_a, "h"_a, "c"_a,
          "Outputs and last states of a layer in one direction; see core/recurrent.hpp.");
    m.def("layer_backward", layer_backward, "kernel"_a, "steps"_a, "batch"_a, "hidden"_a, "sizes"_a, "reverse"_a, "w_hh"_a, "h0"_a, "c0"_a, "gates"_a,
          "y"_a, "cells"_a, "grad_y"_a, "slopes"_a, "dh"_a, "dc"_a, "Gradients of the gates' arguments and of the initial states.");
    m.def("layer_step", layer_step, "kernel"_a, "rows"_a, "hidden"_a, "x"_a, "s"_a, "h"_a, "c"_a, "gates"_a, "new_h"_a, "new_c"_a,
          "New states from the products of one step's input and state with their weights.");
    m.def("time_gates", time_gates, "simd"_a, "kernel"_a, "rows"_a, "hidden"_a, "gates"_a, "h"_a, "c"_a, "new_h"_a, "new_c"_a, "loops"_a,
          "Seconds for `loops` calls of the gates' kernel alone.");
}

}  // namespace isrlu
