// kernels_test [PART]: runs every test, or those with PART in their names, on every instruction set of this CPU. The
// exit code is 1 if a test fails. With ISRLU_TEST_VERBOSE=1 in the environment it also prints the measured errors.
#include <cstdio>
#include <cstring>

#include "isa/dispatch.hpp"
#include "tests/check.hpp"

namespace isrlu::testing {
namespace {

long checks, failures;  // of the test that is running

bool run(const char* instruction_set, const Test& test)
{
    checks = failures = 0;
    if (test.once) test.once();
    else test.each(kernels_named(instruction_set));
    if (checks && !failures) return true;
    std::printf("FAILED %s %s: %ld of %ld checks\n", instruction_set, test.name, failures, checks);
    return false;
}

}  // namespace

std::vector<Test>& tests()
{
    static std::vector<Test> all;
    return all;
}

void checked(bool passed, const char* file, int line, const char* condition, const std::string& where)
{
    constexpr long max_printed = 5;
    ++checks;
    if (passed || ++failures > max_printed) return;
    const char* slash = std::strrchr(file, '/');
    std::printf("  %s:%d: %s: %s\n", slash ? slash + 1 : file, line, condition, where.c_str());
}

}  // namespace isrlu::testing

int main(int argc, char** argv)
{
    using namespace isrlu;
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    int passed = 0, failed = 0;
    const auto count = [&](bool ok) { ++(ok ? passed : failed); };
    for (const testing::Test& test : testing::tests()) {
        if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
        if (test.once) count(testing::run("", test));
        else
            for (const Kernels* k : available()) count(testing::run(k->name.data(), test));
    }
    std::printf("%d passed, %d failed (%s)\n", passed, failed, names_available().c_str());
    return failed != 0 || passed == 0;
}
