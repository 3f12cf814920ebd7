// The CPU's clock as it runs now, from a chain of instructions whose latency is known.
#pragma once

#include <chrono>
#include <cstdint>

namespace isrlu {

inline double seconds_since(std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Cycles per second over about a millisecond, or 0 where no such chain is known. x86: a 64-bit multiply takes 3 cycles on every Intel core since
// Nehalem and every AMD core since Zen (an add would not do: newer cores fold chains of them). ARM64: an add takes one.
inline double measure_clock()
{
    constexpr int links = 1'000'000;
    std::uint64_t x = 3;
    const auto start = std::chrono::steady_clock::now();
#if defined(__x86_64__) && defined(__GNUC__)
    constexpr double latency = 3;
    for (int i = 0; i < links / 10; ++i)
        __asm__ volatile("imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n"
                         "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0"
                         : "+r"(x));
#elif defined(__aarch64__) && defined(__GNUC__)
    constexpr double latency = 1;
    for (int i = 0; i < links / 10; ++i)
        __asm__ volatile("add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n"
                         "add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1"
                         : "+r"(x));
#else
    constexpr double latency = 0;
#endif
    return latency * links / seconds_since(start);
}

}  // namespace isrlu
