#include "../sequence.hpp"

namespace isrlu {

const LayerKernels& scalar_layers()
{
    static constexpr LayerKernels table = build_layers<scalar_isa>();
    return table;
}

}  // namespace isrlu
