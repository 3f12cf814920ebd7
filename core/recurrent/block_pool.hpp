// Blocks of memory that outlive a call, for what a forward pass keeps for the backward pass. A block that is given back
// is kept for a later call, up to 128 MB in all, for the same reason as in scratch.hpp: a training step asks for the
// same sizes again and again, and malloc often returns such blocks to the system in between.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "recurrent/scratch.hpp"

namespace isrlu {

struct Block {
    Memory memory;
    std::size_t bytes;
};

class BlockPool {
public:
    // At least so many bytes, and at most twice as many.
    Block take(std::size_t bytes)
    {
        {
            const std::lock_guard lock(mutex_);
            const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
                return block.bytes >= bytes && block.bytes <= 2 * bytes;
            });
            if (found != blocks_.end()) {
                Block block = std::move(*found);
                blocks_.erase(found);
                kept_bytes_ -= block.bytes;
                return block;
            }
        }
        return {allocate(bytes), bytes};
    }

    // The blocks that have been here longest are freed first.
    void give(Block block)
    {
        if (block.bytes > max_bytes) return;
        const std::lock_guard lock(mutex_);
        kept_bytes_ += block.bytes;
        blocks_.push_back(std::move(block));
        while (kept_bytes_ > max_bytes) {
            kept_bytes_ -= blocks_.front().bytes;
            blocks_.erase(blocks_.begin());
        }
    }

private:
    static constexpr std::size_t max_bytes = std::size_t(128) << 20;

    std::mutex mutex_;
    std::vector<Block> blocks_;
    std::size_t kept_bytes_ = 0;
};

}  // namespace isrlu
