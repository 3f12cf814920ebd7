// Two threads divide the hidden units of every step: each multiplies its columns of the weights, which stay in its own
// core's cache, and computes its units' gates. They wait for each other once in a step.
//
// For small batches and large weights. Each element is computed in the same way by one thread and by two.
//
// The second thread must really run at the same time. If it has not come when the first has waited for it, the first
// does all units alone.
#pragma once

#include <atomic>
#include <thread>

#include "activation/threaded.hpp"
#include "recurrent/layer.hpp"

namespace isrlu {

class UnitSplit {
public:
    // Calls run(Part, StepListener*) for all rows. first_units: units of the first thread, whole panels.
    template <class F> void run(const Sequence& sequence, std::size_t first_units, F run)
    {
        parallel(2, 1, [&](std::size_t begin, std::size_t end) {
            const Part all{0, sequence.batch, 0, sequence.hidden};
            if (end - begin == 2) return run(all, static_cast<StepListener*>(nullptr));
            const bool first = begin == 0;
            if (!meet(first)) {
                if (first) run(all, static_cast<StepListener*>(nullptr));
                return;
            }
            Waiting listener(*this, first);
            if (first) run(Part{0, sequence.batch, 0, first_units}, &listener);
            else run(Part{0, sequence.batch, first_units, sequence.hidden}, &listener);
        });
    }

private:
    static constexpr int patience = 20000, spins = 2000;  // looks at the other thread's counter

    static void relax()
    {
#if defined(__x86_64__) && defined(__GNUC__)
        __builtin_ia32_pause();
#endif
    }

    // Whether both threads are here. The first one decides.
    bool meet(bool first)
    {
        enum { open, came, together, alone };
        int expected = open;
        if (!first) {
            if (!state_.compare_exchange_strong(expected, came)) return false;
            while (state_.load(std::memory_order_acquire) == came) relax();
            return true;
        }
        for (int i = 0; i < patience && state_.load(std::memory_order_acquire) == open; ++i) relax();
        if (state_.compare_exchange_strong(expected, alone)) return false;
        state_.store(together, std::memory_order_release);
        return true;
    }

    class Waiting final : public StepListener {
    public:
        Waiting(UnitSplit& both, bool first) : mine_(both.steps_[!first].count), other_(both.steps_[first].count) {}

        void after_units() override
        {
            mine_.store(++step_, std::memory_order_release);
            for (int i = 0; other_.load(std::memory_order_acquire) < step_; ++i)
                if (i < spins) relax();
                else std::this_thread::yield();
        }

    private:
        std::atomic<std::size_t>&mine_, &other_;
        std::size_t step_ = 0;
    };

    struct alignas(64) Counter {
        std::atomic<std::size_t> count{0};
    };
    Counter steps_[2];
    alignas(64) std::atomic<int> state_{0};
};

}  // namespace isrlu
