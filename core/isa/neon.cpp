#include "../build.hpp"

namespace isrlu {

const Kernels* neon_kernels()
{
    static constexpr Kernels table = build<xsimd::neon64>("neon");
    return &table;
}

}  // namespace isrlu
