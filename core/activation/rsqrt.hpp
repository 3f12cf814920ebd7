// 1 / sqrt(x) for every x: the function that users call as rsqrt.
#pragma once

#include "activation/inverse_root.hpp"

namespace isrlu {
namespace {

// 1 / sqrt(x) for every x. Subnormal x is scaled by 2^108. +-0 gives +-infinity, infinity gives 0, x < 0 gives NaN.
template <Method M, class V> V rsqrt(V x)
{
    const V tiny = constant<V>(std::numeric_limits<value_t<V>>::min());
    const V infinity = constant<V>(std::numeric_limits<double>::infinity());
    const auto subnormal = x < tiny;
    V r = inverse_root<M>(select(subnormal, x * constant<V>(0x1p108), x));
    r = select(subnormal, r * constant<V>(0x1p54), r);
    r = select(x == infinity, constant<V>(0), r);
    r = select(x == constant<V>(0), divide(constant<V>(1), x), r);
    return select(x < constant<V>(0), constant<V>(std::numeric_limits<double>::quiet_NaN()), r);
}

}  // namespace
}  // namespace isrlu
