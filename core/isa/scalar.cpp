#include "../build.hpp"

namespace isrlu {

const Kernels* scalar_kernels()
{
    static constexpr Kernels table = build<scalar_isa>("scalar");
    return &table;
}

}  // namespace isrlu
