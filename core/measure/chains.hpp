// Latency and throughput of the instructions that the paper compares: each loop repeats one operation, whose operand is
// the result before (latency), or takes turns among independent ones (throughput).
#pragma once

#include "activation/inverse_root.hpp"
#include "measure/measure_table.hpp"
#include "simd/exponential.hpp"

namespace isrlu {
namespace {

// Each has a fixed point, so that no operand becomes infinite or subnormal.
struct EstimateStep {
    template <class V> static V next(V x) { return estimate(x); }
};
struct FmaStep {
    template <class V> static V next(V x) { return fma(x, constant<V>(0.5), constant<V>(0.5)); }
};
struct ExpStep {  // with a change of sign
    template <class V> static V next(V x) { return exp(-x); }
};

template <class Step, std::size_t count, class V> float run_chains(std::size_t steps)
{
    V x[count];
    for (std::size_t k = 0; k < count; ++k) x[k] = constant<V>(1.0 + 1.0 / double(steps + k));
    for (std::size_t i = 0; i < steps; ++i)
        for (std::size_t k = 0; k < count; ++k) x[k] = Step::next(x[k]);
    V sum = x[0];
    for (std::size_t k = 1; k < count; ++k) sum = sum + x[k];
    float lanes[traits<V>::lanes];
    write(lanes, sum);
    return lanes[0];
}

template <class Step, class V> constexpr Chain chain(std::string_view name)
{
    return {name, run_chains<Step, 1, V>, run_chains<Step, independent_chains, V>};
}

}  // namespace
}  // namespace isrlu
