#include "../build.hpp"

namespace isrlu {

const Kernels* sse2_kernels()
{
    static constexpr Kernels table = build<xsimd::sse2>("sse2");
    return &table;
}

}  // namespace isrlu
