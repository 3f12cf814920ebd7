// Latency and throughput of the instructions that the paper compares: each loop repeats one operation, whose operand is
// the result before (latency), or takes turns among independent ones (throughput).
#pragma once

#include <utility>

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

// The indices are constants, so that the compiler keeps the chains in registers.
template <class Step, class V, std::size_t... k> float run_chains(std::size_t steps, std::index_sequence<k...>)
{
    V x[] = {constant<V>(1.0 + 1.0 / double(steps + k))...};
    for (std::size_t i = 0; i < steps; ++i) ((x[k] = Step::next(x[k])), ...);
    float lanes[traits<V>::lanes];
    write(lanes, (x[k] + ...));
    return lanes[0];
}

template <class Step, class V, std::size_t count> float run(std::size_t steps)
{
    return run_chains<Step, V>(steps, std::make_index_sequence<count>());
}

template <class Step, class V> constexpr Chain chain(std::string_view name)
{
    return {name, run<Step, V, 1>, run<Step, V, independent_chains>};
}

}  // namespace
}  // namespace isrlu
