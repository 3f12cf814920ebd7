#include "isa/dispatch.hpp"

#include <cstdlib>
#include <stdexcept>

#include "isa/instruction_sets.hpp"

namespace isrlu {

#define ISRLU_NAME(name)
#define ISRLU_SET(name) extern const Kernels name##_kernels;
#include "instruction_sets.inc"
#undef ISRLU_SET
#undef ISRLU_NAME

namespace {

using Cpu = decltype(xsimd::available_architectures());

template <class Isa> bool has(const Cpu& cpu) { return cpu.has(Isa{}); }
template <> bool has<scalar_isa>(const Cpu&) { return true; }
// The AVX-512 build also uses DQ instructions: see its compiler flags in CMakeLists.txt.
template <> bool has<xsimd::avx512bw>(const Cpu& cpu)
{
    return cpu.has(xsimd::avx512bw{}) && cpu.has(xsimd::avx512dq{});
}

}  // namespace

const std::vector<const Kernels*>& available()
{
    static const std::vector<const Kernels*> found = [] {
        const Cpu cpu = xsimd::available_architectures();
        std::vector<const Kernels*> list;
#define ISRLU_NAME(name)
#define ISRLU_SET(name) \
    if (has<architecture::name>(cpu)) list.push_back(&name##_kernels);
#include "instruction_sets.inc"
#undef ISRLU_SET
#undef ISRLU_NAME
        return list;
    }();
    return found;
}

std::string names_available()
{
    std::string names;
    for (const Kernels* k : available()) names += (names.empty() ? "" : ", ") + std::string(k->name);
    return names;
}

const Kernels& kernels_named(std::string_view name)
{
    for (const Kernels* k : available())
        if (k->name == name) return *k;
    std::string known;
    bool is_known = false;  // but for another CPU
#define ISRLU_SET(name)
#define ISRLU_NAME(each)                       \
    known += known.empty() ? each : ", " each; \
    is_known = is_known || name == each;
#include "instruction_sets.inc"
#undef ISRLU_NAME
#undef ISRLU_SET
    const std::string quoted = "instruction set '" + std::string(name) + "'";
    if (is_known) throw std::invalid_argument(quoted + " is not available here: this CPU has " + names_available());
    throw std::invalid_argument("unknown " + quoted + ": known are " + known + "; this CPU has " + names_available());
}

const Kernels& active()
{
    static const Kernels& chosen = []() -> const Kernels& {
        const char* forced = std::getenv("ISRLU_SIMD");
        if (!forced || !*forced) return *available().back();
        try {
            return kernels_named(forced);
        }
        catch (const std::invalid_argument& error) {
            throw std::invalid_argument(std::string("ISRLU_SIMD: ") + error.what());
        }
    }();
    return chosen;
}

}  // namespace isrlu
