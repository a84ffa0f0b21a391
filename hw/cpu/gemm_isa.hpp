#pragma once

#include <string_view>

// Which vector instructions our own matrix kernels use. They are compiled for each level and chosen
// at run time by an ordinary call (no indirect functions), so one binary runs on every machine and
// under sanitizers.

#if defined(__x86_64__)
#define PARPLAN_TARGET_AVX2 __attribute__((target("arch=x86-64-v3")))
#define PARPLAN_TARGET_AVX512 __attribute__((target("arch=x86-64-v4")))
#else
#define PARPLAN_TARGET_AVX2
#define PARPLAN_TARGET_AVX512
#endif

namespace parplan::hw {

/// x86-64 levels of the psABI: none beyond the baseline, v3, v4.
enum class Isa { kBase, kAvx2, kAvx512 };

/// The highest level that this machine and its operating system support.
[[nodiscard]] Isa host_isa();
[[nodiscard]] std::string_view name_of(Isa isa);

}  // namespace parplan::hw
