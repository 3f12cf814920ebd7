#include "activation/root_table.hpp"

#include <cmath>
#include <cstddef>

namespace isrlu {
namespace {

// Entry i is 1/sqrt of the middle of its interval, an interval of [1, 4): the first half of the table holds [2, 4), because the exponent's
// bias is odd, so that a stored exponent ending in 0 stands for an odd power of 2.
template <class T> RootTable<T> make()
{
    constexpr int half = 1 << (table_bits - 1);
    RootTable<T> entries{};
    for (int i = 0; i < 2 * half; ++i) {
        const double mantissa = 1 + (i % half + 0.5) / half;
        entries[static_cast<std::size_t>(i)] = static_cast<T>(1 / std::sqrt(i < half ? 2 * mantissa : mantissa));
    }
    return entries;
}

}  // namespace

const RootTable<float> root_table_float32 = make<float>();
const RootTable<double> root_table_float64 = make<double>();

}  // namespace isrlu
