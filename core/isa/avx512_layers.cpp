#include "../sequence.hpp"

namespace isrlu {

const LayerKernels& avx512_layers()
{
    static constexpr LayerKernels table = build_layers<xsimd::avx512bw>();
    return table;
}

}  // namespace isrlu
