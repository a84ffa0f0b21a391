#pragma once

#include <cstdint>

#include "hw/cpu/kernel_context.hpp"

namespace parplan::hw {

/// A matrix operand, read only. Element (row, col) lies at data[row * stride + col], or, when
/// `transposed`, at data[col * stride + row].
template <class T>
struct GemmOperand {
  const T* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

/// c[m, n] = a[m, k] * b[k, n], plus bias[n] on every row if given, or added to what c holds if
/// `accumulate` (not both). Rows of c are contiguous, c_stride >= n elements apart.
template <class T>
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmOperand<T> a;
  GemmOperand<T> b;
  T* c = nullptr;
  std::int64_t c_stride = 0;
  const T* bias = nullptr;
  bool accumulate = false;
};

/// General matrix product of float (oneDNN) or double (our own kernels). c must not overlap an
/// operand. Empty products (k = 0) are zero; without `accumulate`, c is never read.
///
/// With a poll set, a float product of more than kPollFlop is cut into blocks of about that size,
/// but of about 192 rows (terms, where `a` is transposed) at least as long as they have no more
/// than 10 x kPollFlop, and the poll is called between them, on the calling thread; a double
/// product polls about every millisecond. Where it is cut
/// depends on the shape and operand layout alone, so results repeat bit for bit; a polled and an
/// unpolled float product may differ in rounding. Double results depend neither on polling nor on
/// the number of threads.
///
/// Memory beside the operands: per calling thread, oneDNN's scratch for float (below 1 MB for the
/// shapes measured with AVX-512) and 2.5 MB for double, and about 70 kB of generated code per float
/// shape; all are kept.
/// The first float product of a shape costs 0.3 to 2 ms (code generation); about 0.2 us a call
/// after. Thread-safe. Throws InternalError on a broken promise above, HwError if oneDNN fails.
template <class T>
void gemm(const KernelContext& context, const Gemm<T>& args);

/// Multiplications and additions between two polls of a float GEMM, where its rows are not too long
/// for that: 1 ms at 250 GFLOP/s.
inline constexpr double kPollFlop = 250e6;

}  // namespace parplan::hw
