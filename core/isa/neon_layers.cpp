#include "../sequence.hpp"

namespace isrlu {

const LayerKernels& neon_layers()
{
    static constexpr LayerKernels table = build_layers<xsimd::neon64>();
    return table;
}

}  // namespace isrlu
