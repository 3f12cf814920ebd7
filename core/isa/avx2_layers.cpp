#include "../sequence.hpp"

namespace isrlu {

const LayerKernels& avx2_layers()
{
    static constexpr LayerKernels table = build_layers<xsimd::fma3<xsimd::avx2>>();
    return table;
}

}  // namespace isrlu
