// Arrays of test numbers.
#pragma once

#include <cstddef>
#include <vector>

namespace isrlu::testing {

// n numbers between -scale and scale, others for every seed
template <class T> std::vector<T> numbers(std::size_t n, int seed, double scale)
{
    std::vector<T> made(n);
    for (std::size_t i = 0; i < n; ++i)
        made[i] = static_cast<T>(
            scale * (static_cast<double>((i * 37 + static_cast<std::size_t>(seed) * 101) % 1009) / 504.5 - 1));
    return made;
}

}  // namespace isrlu::testing
