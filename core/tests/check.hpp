// TEST runs a function once for each instruction set of this CPU, TEST_ONCE runs it once. A test passes if it has at
// least one CHECK and none fails.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "activation/kernel_table.hpp"

namespace isrlu::testing {

struct Test {
    const char* name;
    void (*each)(const Kernels&);
    void (*once)();
};
std::vector<Test>& tests();
struct Registered {
    explicit Registered(Test test) { tests().push_back(test); }
};

void checked(bool passed, const char* file, int line, const char* condition, const std::string& where);

template <class... Parts> std::string text(const Parts&... parts)
{
    std::ostringstream out;
    out.precision(17);
    (out << ... << parts);
    return out.str();
}

// CHECK(condition, values to print if it fails...)
#define CHECK(condition, ...)                                                          \
    do {                                                                               \
        const bool passed_ = (condition);                                              \
        ::isrlu::testing::checked(passed_, __FILE__, __LINE__, #condition,             \
                                  passed_ ? "" : ::isrlu::testing::text(__VA_ARGS__)); \
    } while (false)

#define TEST(name)                                                                  \
    static void name(const ::isrlu::Kernels&);                                      \
    static const ::isrlu::testing::Registered name##_registered({#name, name, {}}); \
    static void name([[maybe_unused]] const ::isrlu::Kernels& kernels)
#define TEST_ONCE(name)                                                             \
    static void name();                                                             \
    static const ::isrlu::testing::Registered name##_registered({#name, {}, name}); \
    static void name()

}  // namespace isrlu::testing
