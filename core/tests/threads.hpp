// A stand-in for libtorch's thread pool.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

#include "activation/threaded.hpp"

namespace isrlu::testing {

// Sets the number of threads for one scope. 0: no parallel_for.
struct Threads {
    static inline int count = 1;
    static inline int calls = 0;  // of parallel_for

    explicit Threads(int n) { count = n, set_parallel_for(n ? parallel_for : nullptr); }
    ~Threads() { set_parallel_for(nullptr); }

    static std::int32_t parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain_size,
                                     void (*f)(std::int64_t, std::int64_t, void*), void* context)
    {
        ++calls;
        const std::int64_t piece = std::max(grain_size, (end - begin + count - 1) / count);
        std::vector<std::thread> pool;
        for (std::int64_t from = begin; from < end; from += piece)
            pool.emplace_back(f, from, std::min(end, from + piece), context);
        for (std::thread& each : pool) each.join();
        return 0;
    }
};

}  // namespace isrlu::testing
