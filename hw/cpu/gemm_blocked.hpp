#pragma once

#include "hw/cpu/gemm.hpp"
#include "hw/cpu/gemm_isa.hpp"

namespace parplan::hw {

/// One product on one thread by our own kernels, with the vector instructions of `isa` (which the
/// machine must support); polls about every millisecond. m, n, k >= 1. Same contract as `gemm`.
/// Internal to hw/cpu. T: float, double.
///
/// Method: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34
/// (2008): a panel of b is copied so that the inner kernel reads it in order from the first-level
/// cache; `a` is read in place, or copied where it is transposed.
template <class T>
void gemm_blocked(const Poll& poll, const Gemm<T>& args, Isa isa);

}  // namespace parplan::hw
