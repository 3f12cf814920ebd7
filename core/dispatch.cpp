#include "dispatch.hpp"

#include <cstdlib>
#include <stdexcept>

#include <xsimd/xsimd.hpp>

namespace isrlu {

const std::vector<const Kernels*>& available()
{
    static const std::vector<const Kernels*> found = [] {
        std::vector<const Kernels*> list{scalar_kernels()};
        [[maybe_unused]] const auto cpu = xsimd::available_architectures();
#if defined(ISRLU_X86)
        if (cpu.has(xsimd::sse2{})) list.push_back(sse2_kernels());
        // Every CPU with FMA3 and AVX2 has F16C too.
        if (cpu.has(xsimd::fma3<xsimd::avx2>{})) list.push_back(avx2_kernels());
        if (cpu.has(xsimd::avx512bw{}) && cpu.has(xsimd::avx512dq{})) list.push_back(avx512_kernels());
#elif defined(ISRLU_ARM64)
        list.push_back(neon_kernels());
#endif
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
    for (const std::string_view known : {"scalar", "sse2", "avx2", "avx512", "neon"})
        if (known == name) throw std::invalid_argument("instruction set '" + std::string(name) + "' is not available here: this CPU has " + names_available());
    throw std::invalid_argument("unknown instruction set '" + std::string(name) + "': known are scalar, sse2, avx2, avx512, neon; this CPU has " + names_available());
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
