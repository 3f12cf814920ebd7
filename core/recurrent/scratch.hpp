// Memory that is handed out in pieces aligned to cache lines: temporary, for one call, or owned.
//
// A thread keeps its temporary memory, up to 32 MB, from call to call. Fresh memory causes a page fault every 4 KB,
// which costs more than the work on it. Linux is asked for pages of 2 MB where there is more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace isrlu {

// Asks for large pages for memory that was not written to yet, if it is at least 4 MB. NumPy does the same.
inline void request_large_pages(void* memory, std::size_t bytes)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr std::size_t page = 4096, least = std::size_t(4) << 20;
    if (!memory || bytes < least) return;
    const std::size_t skipped = page - reinterpret_cast<std::uintptr_t>(memory) % page;
    madvise(static_cast<char*>(memory) + skipped, (bytes - skipped) / page * page, MADV_HUGEPAGE);
#else
    static_cast<void>(memory);
    static_cast<void>(bytes);
#endif
}

constexpr std::size_t line_bytes = 64, max_kept_bytes = std::size_t(32) << 20;  // 32 MB
struct FreeLines {
    void operator()(void* p) const { ::operator delete(p, std::align_val_t(line_bytes)); }
};
using Memory = std::unique_ptr<void, FreeLines>;
inline Memory allocate(std::size_t bytes)
{
    Memory memory(::operator new(bytes, std::align_val_t(line_bytes)));
    request_large_pages(memory.get(), bytes);
    return memory;
}

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
    Scratch rest() const { return Scratch(next_); }  // what was not taken yet, to be taken several times
    static Scratch owned(std::size_t bytes) { return Scratch(allocate(bytes)); }
    void* take(std::size_t bytes) { return std::exchange(next_, next_ + round_up(bytes)); }
    static std::size_t round_up(std::size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

private:
    explicit Scratch(Memory memory) : large_(std::move(memory)), next_(static_cast<char*>(large_.get())) {}

    explicit Scratch(char* next) : next_(next) {}

    Memory large_;
    char* next_;
};

}  // namespace isrlu
