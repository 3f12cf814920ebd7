// Fills the benchmarks' table of one instruction set.
#pragma once

#include "measure/chains.hpp"
#include "measure/convolution.hpp"
#include "measure/error.hpp"
#include "measure/rivals.hpp"

namespace isrlu {
namespace {

template <class Isa> constexpr MeasureKernels fill_measure_table()
{
    using V = vec<float, Isa>;
    return {{rival<Copy, V>("copy"), rival<Relu, V>("relu"), rival<Elu, V>("elu"), rival<Exp, V>("exp"),
             rival<Tanh, V>("tanh"), rival<Sigmoid, V>("sigmoid"), rival<InverseRoot, V>("invsqrt")},
            {{"5x5", 5, 5, convolve<5, 5, V>},
             {"3x3", 3, 3, convolve<3, 3, V>},
             {"3x1", 3, 1, convolve<3, 1, V>},
             {"1x3", 1, 3, convolve<1, 3, V>}},
            {chain<EstimateStep, V>("rsqrt"), chain<FmaStep, V>("fma"), chain<ExpStep, V>("exp")},
            add_error<Isa>};
}

}  // namespace
}  // namespace isrlu
