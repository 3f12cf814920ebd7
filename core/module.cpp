#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

NB_MODULE(_core, m)
{
    m.def("simd", []() { return std::string("avx2"); }, "The instruction set in use.");
    m.def("simd_available", []() { return std::vector<std::string>{"scalar", "sse2", "avx2"}; },
          "The instruction sets that this CPU has and this build carries, best last.");
}
