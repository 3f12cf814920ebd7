// The CPU's current clock frequency, measured with a chain of dependent instructions of known latency.
#pragma once

#include <chrono>
#include <cstdint>

namespace isrlu {

inline double seconds_since(std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Cycles per second, averaged over about 1 ms; 0 if no such instruction is known. x86: a 64-bit multiply has a latency
// of 3 cycles on every Intel core since Nehalem and every AMD core since Zen. An add is unsuitable: newer x86 cores
// fold chains of adds. ARM64: an add has a latency of 1 cycle.
inline double measure_clock()
{
    constexpr int chain_length = 1'000'000;
    std::uint64_t x = 3;
    const auto start = std::chrono::steady_clock::now();
#if defined(__x86_64__) && defined(__GNUC__)
    constexpr double latency_cycles = 3;
    for (int i = 0; i < chain_length / 10; ++i)
        __asm__ volatile("imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n"
                         "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0"
                         : "+r"(x));
#elif defined(__aarch64__) && defined(__GNUC__)
    constexpr double latency_cycles = 1;
    for (int i = 0; i < chain_length / 10; ++i)
        __asm__ volatile("add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n"
                         "add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1\n add %0, %0, #1"
                         : "+r"(x));
#else
    constexpr double latency_cycles = 0;
#endif
    return latency_cycles * chain_length / seconds_since(start);
}

}  // namespace isrlu
