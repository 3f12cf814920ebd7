#include "../build.hpp"

namespace isrlu {

const Kernels* avx512_kernels()
{
    static constexpr Kernels table = build<xsimd::avx512bw>("avx512");
    return &table;
}

}  // namespace isrlu
