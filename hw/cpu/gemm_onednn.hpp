#pragma once

#include "hw/cpu/gemm.hpp"

namespace parplan::hw {

/// One float product, uncut, by oneDNN, with `thread_count` threads. m, n, k >= 1. Internal to
/// hw/cpu.
void gemm_onednn(const Gemm<float>& args, int thread_count);

}  // namespace parplan::hw
