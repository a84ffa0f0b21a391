#include "hw/cpu/gemm_isa.hpp"

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // The features of x86-64-v4 beyond v3, and of v3 beyond the baseline, that our loops can use;
  // spelled out because not every compiler knows the levels by name here.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) {
    return Isa::kAvx512;
  }
  return v3 ? Isa::kAvx2 : Isa::kBase;
#else
  return Isa::kBase;
#endif
}

}  // namespace

Isa host_isa() {
  static const Isa kHost = detect();
  return kHost;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kBase:
      return "baseline";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX-512";
  }
  throw InternalError("internal error: unknown instruction set");
}

}  // namespace parplan::hw
