// Memory that is handed out in pieces aligned to cache lines: temporary, for one call, or owned.
//
// A thread keeps its temporary memory, up to 32 MB, from call to call. Fresh memory causes a page fault every 4 KB, which
// costs more than the work on it.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace isrlu {

class Scratch {
public:
    explicit Scratch(std::size_t bytes) : large_(bytes > max_kept_bytes ? allocate(bytes) : nullptr)
    {
        thread_local Memory kept;
        thread_local std::size_t kept_bytes = 0;
        if (!large_ && bytes > kept_bytes) {
            kept.reset();
            kept_bytes = 0;
            kept = allocate(bytes);
            kept_bytes = bytes;
        }
        next_ = static_cast<char*>(large_ ? large_.get() : kept.get());
    }
    static Scratch owned(std::size_t bytes) { return Scratch(allocate(bytes)); }
    void* take(std::size_t bytes) { return std::exchange(next_, next_ + round_up(bytes)); }
    static std::size_t round_up(std::size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

private:
    static constexpr std::size_t line_bytes = 64, max_kept_bytes = std::size_t(32) << 20;  // 32 MB
    struct Free {
        void operator()(void* p) const { ::operator delete(p, std::align_val_t(line_bytes)); }
    };
    using Memory = std::unique_ptr<void, Free>;
    static Memory allocate(std::size_t bytes) { return Memory(::operator new(bytes, std::align_val_t(line_bytes))); }

    explicit Scratch(Memory memory) : large_(std::move(memory)), next_(static_cast<char*>(large_.get())) {}

    Memory large_;
    char* next_;
};

}  // namespace isrlu
