#include "../build.hpp"

namespace isrlu {

const Kernels* avx2_kernels()
{
    static constexpr Kernels table = build<xsimd::fma3<xsimd::avx2>>("avx2");
    return &table;
}

}  // namespace isrlu
