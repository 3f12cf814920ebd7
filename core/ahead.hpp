// The inputs' product a few rows ahead of the sequence, on a second thread.
//
// A small batch runs its sequence on one thread, step after step. Meanwhile a second thread multiplies the inputs, chunk by chunk in the order of
// the steps. The first thread takes a chunk itself wherever the second has not come so far. The call ends when both have ended: where the second
// gets no core of its own, that costs a turn of the scheduler, as in all calls on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "drive.hpp"
#include "recurrent.hpp"

namespace isrlu {

class InputAhead {
public:
    InputAhead(const Recurrence& kernels, const LayerForward& call, std::size_t rows)
        : kernels(kernels), call(call), rows(rows), count((rows + chunk - 1) / chunk), done(new std::atomic<bool>[count]())
    {
        this->call.before_step = [](void* self, std::size_t from, std::size_t to) { static_cast<InputAhead*>(self)->need(from, to); };
        this->call.before_step_context = this;
    }

    // The whole layer.
    void run()
    {
        parallel(2, 1, [this](std::size_t from, std::size_t to) {
            if (from == 0) kernels.forward(call, 0, call.batch);  // a single thread finds everything done after it
            if (to == 2)
                while (take()) continue;
        });
    }

private:
    static constexpr std::size_t chunk = 6;  // rows

    // Multiplies the first chunk that nobody has taken; false if there is none.
    bool take()
    {
        const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= count) return false;
        const std::size_t place = call.reverse ? count - 1 - i : i;
        kernels.input(call, place * chunk, std::min(rows, (place + 1) * chunk));
        done[place].store(true, std::memory_order_release);
        return true;
    }

    void need(std::size_t from, std::size_t to)
    {
        for (std::size_t i = from / chunk; i <= (to - 1) / chunk; ++i)
            while (!done[i].load(std::memory_order_acquire))
                if (!take()) std::this_thread::yield();
    }

    const Recurrence& kernels;
    LayerForward call;
    std::size_t rows, count;
    std::unique_ptr<std::atomic<bool>[]> done;
    std::atomic<std::size_t> next{0};
};

}  // namespace isrlu
