#include "activation/root_table.hpp"

#include <cmath>
#include <cstddef>

namespace isrlu {
namespace {

// Entry i is 1/sqrt of the midpoint of interval i. The intervals divide [1, 4). The first half of the table covers
// [2, 4): the exponent's bias is odd, so a stored exponent whose last bit is 0 is an odd power of 2.
template <class T> RootTable<T> make_table()
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

const RootTable<float> root_table_float32 = make_table<float>();
const RootTable<double> root_table_float64 = make_table<double>();

}  // namespace isrlu
