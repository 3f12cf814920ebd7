#include "layers.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include <nanobind/stl/string_view.h>

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
constexpr std::size_t least_products = 1 << 23;  // bytes of gates times width of the input, below which a second thread would come too late

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

const LayerKernels& layers_of(const Kernels& build)
{
#if defined(ISRLU_X86)
    if (build.name == "sse2") return sse2_layers();
    if (build.name == "avx2") return avx2_layers();
    if (build.name == "avx512") return avx512_layers();
#elif defined(ISRLU_ARM64)
    if (build.name == "neon") return neon_layers();
#endif
    return scalar_layers();
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

// Memory on cache lines.
struct Free {
    void operator()(void* p) const { ::operator delete(p, std::align_val_t(64)); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(std::size_t bytes) { return Memory(::operator new(bytes, std::align_val_t(64))); }

// W_ih or W_hh [columns hidden, width] for the product with inputs or states, or, transposed, with the gradients.
Memory packed(const Chosen& c, const void* weight, std::size_t hidden, std::size_t width, std::size_t shift, bool transposed)
{
    const std::size_t rows = state_columns(c.cell) * hidden;
    Memory memory = allocate(c.size * (transposed ? c.packing->size(rows, width) : c.packing->size(width, rows)));
    c.packing->pack(weight, rows, width, shift, transposed, memory.get());
    return memory;
}

// W_hh; a GRU's rows r z n become n r z.
Memory packed_state(const Chosen& c, const void* weight, std::size_t hidden, bool transposed)
{
    return packed(c, weight, hidden, hidden, c.cell == Cell::gru ? 2 * hidden : 0, transposed);
}

// Initial states that were not given.
struct Zeros {
    Memory memory;
    const void *h0, *c0;
    Zeros(const void* h, const void* c, std::size_t bytes) : memory(h ? nullptr : allocate(bytes)), h0(h), c0(c)
    {
        if (!h) h0 = c0 = std::memset(memory.get(), 0, bytes);
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
    const Memory weights = packed_state(k, pointer(w_hh), hidden, false), input_weights = packed(k, pointer(w_ih), hidden, width, 0, false);
    const Memory start = allocate(wide), buffer = keep ? nullptr : allocate(rows * wide);
    k.kernels->start(hidden, pointer(b_ih), pointer(b_hh), start.get());
    const Zeros states(pointer(h0), pointer(c0), batch * state);
    if (c && !keep) std::memcpy(pointer(c), states.c0, batch * state);
    const Layer layer{steps, batch, hidden, static_cast<const std::int64_t*>(pointer(sizes)), reverse, weights.get(), states.h0, states.c0};
    const LayerForward call{layer, width, pointer(x), input_weights.get(), start.get(), keep ? pointer(gates) : buffer.get(), pointer(y), pointer(keep ? cells : c), keep};
    parallel(rows, 1 + least_products / (wide * width), [&](std::size_t from, std::size_t to) { k.kernels->input(call, from, to); });
    parallel(batch, least_rows, [&](std::size_t from, std::size_t to) { k.kernels->forward(call, from, to); });
    copy_last(layer, rows, state, pointer(y), pointer(h));
    if (c && keep) copy_last(layer, rows, state, pointer(cells), pointer(c));
}

void layer_backward(int kernel, std::size_t steps, std::size_t batch, std::size_t hidden, Address sizes, bool reverse, Address w_hh, Address h0, Address c0,
                    Address gates, Address y, Address cells, Address grad_y, Address slopes, Address dh, Address dc)
{
    const nb::gil_scoped_release release;
    const Chosen k = chosen(kernel);
    const Memory weights = packed_state(k, pointer(w_hh), hidden, true);
    const Zeros states(pointer(h0), pointer(c0), batch * hidden * k.size);
    const Layer layer{steps, batch, hidden, static_cast<const std::int64_t*>(pointer(sizes)), reverse, weights.get(), states.h0, states.c0};
    const LayerBackward call{layer, pointer(gates), pointer(y), pointer(cells), pointer(grad_y), pointer(slopes), pointer(dh), pointer(dc)};
    parallel(batch, least_rows, [&](std::size_t from, std::size_t to) { k.kernels->backward(call, from, to); });
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
    m.def("time_gates", time_gates, "simd"_a, "kernel"_a, "rows"_a, "hidden"_a, "gates"_a, "h"_a, "c"_a, "new_h"_a, "new_c"_a, "loops"_a,
          "Seconds for `loops` calls of the gates' kernel alone.");
}

}  // namespace isrlu
