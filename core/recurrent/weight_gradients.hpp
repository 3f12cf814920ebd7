// The gradients of a layer's weights: the slopes of all rows times their inputs and their previous states.
//
// Threads divide the rows of the result, so each element is summed in the same order on any number of them.
#pragma once

#include <algorithm>
#include <vector>

#include "recurrent/layer_pass.hpp"

namespace isrlu {

// Rows of inputs or of previous states. The slopes of the first of them are in row first_slopes.
struct Operand {
    const char* data;
    std::size_t rows, width, first_slopes;
    char* packed;  // memory for chunk_rows rows
};

// Rows of a weight's gradient: as many columns of the slopes, from `column` on, times an operand. Null for what is not
// wanted of them: the product, or the sums.
struct Target {
    std::size_t operand, column, rows;
    void *result, *sums;
};

// Adds to the gradients of `g`; dx is not computed here.
class WeightGradients {
public:
    WeightGradients(const LayerKind& kind, const Sequence& sequence, const BackwardArrays& a, const GradientArrays& g)
        : kind_(kind),
          sequence_(sequence),
          a_(a),
          g_(g),
          state_bytes_(sequence.hidden * kind.element_size)
    {}

    static std::size_t scratch_bytes(const LayerKind& kind, const Sequence& sequence, std::size_t rows,
                                     std::size_t width)
    {
        return packed_bytes(kind, rows, width) + 2 * packed_bytes(kind, rows, sequence.hidden) +
               (sequence.sizes ? Scratch::round_up(rows * sequence.hidden * kind.element_size) : 0);
    }

    void run(Scratch& scratch)
    {
        add_operand({static_cast<const char*>(g_.x), g_.rows, g_.width, 0, nullptr}, scratch);
        add_previous_states(scratch);
        add_targets();
        for (std::size_t row = 0; row < g_.rows; row += chunk_rows) run_chunk(row, 0, 2);
        // h0 adds to the rows that y has added to: not at the same time.
        for (std::size_t row = 0; row < sequence_.batch; row += chunk_rows) run_chunk(row, 2, operands_.size());
        const std::size_t shared = kind_.layout.first_state_block ? kind_.layout.first_state_block : 4;
        if (g_.db_hh) std::memcpy(g_.db_hh, g_.db_ih, shared * state_bytes_);
    }

private:
    static constexpr std::size_t chunk_rows = 1024;  // rows of inputs and states that are packed at once
    static constexpr std::size_t task_rows = 96;  // rows of a weight's gradient that one thread computes at once
    static constexpr std::size_t min_task_work = std::size_t(1) << 20;  // multiplications; the least for a thread

    static std::size_t packed_bytes(const LayerKind& kind, std::size_t rows, std::size_t width)
    {
        return Scratch::round_up(kind.packing->size(std::min(chunk_rows, rows), width) * kind.element_size);
    }

    void add_operand(Operand operand, Scratch& scratch)
    {
        operand.packed = static_cast<char*>(scratch.take(packed_bytes(kind_, operand.rows, operand.width)));
        operands_.push_back(operand);
    }

    // The state before each row's step: rows of y, and h0 before the first step.
    void add_previous_states(Scratch& scratch)
    {
        const std::size_t batch = sequence_.batch, hidden = sequence_.hidden, later = g_.rows - batch;
        const auto *y = static_cast<const char*>(a_.y), *h0 = static_cast<const char*>(a_.h0);
        if (sequence_.sizes) return add_operand({gather_states(scratch), g_.rows, hidden, 0, nullptr}, scratch);
        const bool reverse = sequence_.reverse;
        add_operand({reverse ? y + batch * state_bytes_ : y, later, hidden, reverse ? 0 : batch, nullptr}, scratch);
        if (h0) add_operand({h0, batch, hidden, reverse ? later : 0, nullptr}, scratch);
    }

    // For steps of different sizes: a copy, row by row.
    const char* gather_states(Scratch& scratch) const
    {
        const auto *y = static_cast<const char*>(a_.y), *h0 = static_cast<const char*>(a_.h0);
        auto* to = static_cast<char*>(scratch.take(g_.rows * state_bytes_));
        const auto copy = [&](const char* from, std::size_t rows) {
            if (from) std::memcpy(to, from, rows * state_bytes_);
            else std::memset(to, 0, rows * state_bytes_);
            to += rows * state_bytes_;
        };
        const char *const begin = to, *previous = y;  // rows of the step before, or after if reverse
        for (std::size_t t = 0; t < sequence_.steps; ++t) {
            const auto size_of = [&](std::size_t step) { return static_cast<std::size_t>(sequence_.sizes[step]); };
            const std::size_t size = size_of(t);
            const bool last = t + 1 == sequence_.steps;
            const std::size_t known = sequence_.reverse ? (last ? 0 : size_of(t + 1)) : t ? size : 0;
            if (sequence_.reverse) previous += size * state_bytes_;
            copy(previous, known);
            if (known < size) copy(h0 ? h0 + known * state_bytes_ : nullptr, size - known);
            if (!sequence_.reverse && t) previous += size_of(t - 1) * state_bytes_;
        }
        return begin;
    }

    void add_targets()
    {
        const GateLayout& layout = kind_.layout;
        const std::size_t hidden = sequence_.hidden, weight_bytes = hidden * state_bytes_;
        add_target({0, layout.first_input, layout.columns, g_.dw_ih, g_.db_ih});
        const std::size_t block = layout.first_state_block;
        if (block && g_.db_hh)
            add_target({0, layout.first_state, layout.columns - block, nullptr,
                        static_cast<char*>(g_.db_hh) + block * state_bytes_});
        auto* dw = static_cast<char*>(g_.dw_hh);
        for (std::size_t i = 1; dw && i < operands_.size(); ++i) {
            add_target({i, layout.first_state, layout.columns - block, dw + block * weight_bytes, nullptr});
            if (block) add_target({i, layout.first_state + layout.columns - block, block, dw, nullptr});
        }
    }
    // `column` and `rows` of the argument are in units of `hidden`.
    void add_target(Target target)
    {
        target.column *= sequence_.hidden;
        target.rows *= sequence_.hidden;
        targets_.push_back(target);
    }

    // Packs rows [first, first + chunk_rows) of operands [begin, end) and adds their products.
    void run_chunk(std::size_t first, std::size_t begin, std::size_t end)
    {
        struct Task {
            OuterProduct product;
            std::size_t first, last;
        };
        std::vector<Task> tasks;
        const auto rows_of = [&](const Operand& o) { return std::min(chunk_rows, o.rows - std::min(first, o.rows)); };
        for (std::size_t i = begin; i < end; ++i) pack(operands_[i], first, rows_of(operands_[i]));
        for (const Target& t : targets_) {
            const Operand& o = operands_[t.operand];
            if (t.operand < begin || t.operand >= end) continue;
            const auto* slopes = static_cast<const char*>(a_.slopes) +
                                 ((o.first_slopes + first) * 4 * sequence_.hidden + t.column) * kind_.element_size;
            const OuterProduct product{
                rows_of(o), t.result ? o.width : 0, slopes, 4 * sequence_.hidden, o.packed, t.result, t.sums};
            for (std::size_t row = 0; product.depth && row < t.rows; row += task_rows)
                tasks.push_back({product, row, std::min(row + task_rows, t.rows)});
        }
        const std::size_t work = std::min(chunk_rows, g_.rows) * task_rows * std::max(g_.width, sequence_.hidden);
        parallel(tasks.size(), 1 + min_task_work / work, [&](std::size_t first_task, std::size_t last_task) {
            for (std::size_t i = first_task; i < last_task; ++i)
                kind_.products->add_outer(tasks[i].product, tasks[i].first, tasks[i].last);
        });
    }

    void pack(const Operand& o, std::size_t first, std::size_t rows) const
    {
        if (!rows) return;
        const std::size_t panels = kind_.packing->panels(o.width), row_bytes = o.width * kind_.element_size;
        parallel(panels, 1 + min_packed_bytes * panels / (rows * row_bytes), [&](std::size_t begin, std::size_t end) {
            kind_.packing->pack(o.data + first * row_bytes, rows, o.width, 0, true, begin, end, o.packed);
        });
    }

    const LayerKind& kind_;
    const Sequence& sequence_;
    const BackwardArrays& a_;
    const GradientArrays& g_;
    const std::size_t state_bytes_;
    std::vector<Operand> operands_;
    std::vector<Target> targets_;
};

}  // namespace isrlu
