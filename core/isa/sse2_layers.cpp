#include "../sequence.hpp"

namespace isrlu {

const LayerKernels& sse2_layers()
{
    static constexpr LayerKernels table = build_layers<xsimd::sse2>();
    return table;
}

}  // namespace isrlu
