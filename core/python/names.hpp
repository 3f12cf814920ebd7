// Words of Python's callers: functions, methods, dtypes.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "activation/kernel_table.hpp"

namespace isrlu {

// The place of a word in a list, or std::invalid_argument with the words that are accepted.
template <std::size_t N>
int position(const char* what, std::string_view word, const std::string_view (&names)[N], std::size_t count = N)
{
    const auto found = std::find(names, names + count, word);
    if (found != names + count) return static_cast<int>(found - names);
    std::string known;
    for (std::size_t i = 0; i < count; ++i) known += (i ? ", " : "") + std::string(names[i]);
    throw std::invalid_argument("unknown " + std::string(what) + " '" + std::string(word) + "': known are " + known);
}

inline Function function_named(std::string_view word) { return Function(position("function", word, function_names)); }
inline Type type_named(std::string_view word) { return Type(position("dtype", word, type_names)); }
inline Method method_named(std::string_view word) { return Method(position("method", word, method_names)); }

}  // namespace isrlu
