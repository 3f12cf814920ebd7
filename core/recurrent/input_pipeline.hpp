// The input's product on a second thread, a few rows ahead of the sequence.
//
// A small batch runs its sequence on one thread, step after step. Meanwhile a second thread multiplies the inputs,
// chunk by chunk in the order of the steps. The first thread takes a chunk itself if the second has not come that far.
// Each row is computed in the same way by either thread.
//
// Gain, times as fast as torch.nn in inference, float32, 64 steps, 2 threads, AVX-512 (Sapphire Rapids);
// `isrlu bench rnn --batch 1 --batch 3 --hidden 64 --hidden 128`, with this file and with one parallel product before
// the sequence:
//
//   batch, hidden      1, 64   1, 128   3, 64   3, 128
//   LSTM, with          3.19     1.77    2.89     1.55
//   LSTM, without       3.03     1.58    2.49     1.27
//   GRU, with          13.74     5.96   10.08     4.18
//   GRU, without       11.02     4.67    8.09     3.16
//
// Cost: if another process takes the second thread's core in the middle of a chunk, the call waits for a time slice of
// the scheduler, several milliseconds. The product before the sequence waits in the same way.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "activation/threaded.hpp"
#include "recurrent/layer.hpp"

namespace isrlu {

class InputPipeline final : StepListener {
public:
    InputPipeline(const Recurrence& kernels, const LayerForward& layer, std::size_t rows)
        : kernels_(kernels),
          layer_(layer),
          rows_(rows),
          chunks_((rows + chunk_rows - 1) / chunk_rows),
          done_(new std::atomic<bool>[chunks_]())
    {
        multiplies_inputs = true;
    }

    // Runs the whole layer.
    void run()
    {
        parallel(2, 1, [this](std::size_t begin, std::size_t end) {
            if (begin == 0) kernels_.forward(layer_, {0, layer_.batch, 0, layer_.hidden}, this);
            if (end == 2)
                while (multiply_next_chunk()) continue;
        });
    }

private:
    static constexpr std::size_t chunk_rows = 6;

    // Waits for the rows, or computes them.
    void before_step(std::size_t begin, std::size_t end) override
    {
        for (std::size_t i = begin / chunk_rows; i <= (end - 1) / chunk_rows; ++i)
            while (!done_[i].load(std::memory_order_acquire))
                if (!multiply_next_chunk()) std::this_thread::yield();
    }

    // Multiplies the first chunk that no thread has taken. False if there is none.
    bool multiply_next_chunk()
    {
        const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i >= chunks_) return false;
        const std::size_t chunk = layer_.reverse ? chunks_ - 1 - i : i;
        kernels_.multiply_input(layer_, chunk * chunk_rows, std::min(rows_, (chunk + 1) * chunk_rows));
        done_[chunk].store(true, std::memory_order_release);
        return true;
    }

    const Recurrence& kernels_;
    const LayerForward& layer_;
    std::size_t rows_, chunks_;
    std::unique_ptr<std::atomic<bool>[]> done_;
    std::atomic<std::size_t> next_{0};
};

}  // namespace isrlu
