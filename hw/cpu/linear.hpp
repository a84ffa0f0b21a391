#pragma once

#include <cstdint>

#include "hw/cpu/kernel_context.hpp"

// A linear layer: weights w[out, in], as PyTorch stores them. Every matrix is row-major without
// gaps, rows = samples times positions. T: float, double. Outputs overlap no input. Polling,
// threads, determinism and errors: see `gemm` (hw/cpu/gemm.hpp).

namespace parplan::hw {

struct LinearShape {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// y[rows, out] = x[rows, in] * w[out, in]^T, plus bias[out] unless null.
template <class T>
struct LinearForward {
  LinearShape shape;
  const T* x = nullptr;
  const T* w = nullptr;
  const T* bias = nullptr;
  T* y = nullptr;
};
template <class T>
void linear_forward(const KernelContext& context, const LinearForward<T>& args);

/// dx[rows, in] = dy[rows, out] * w[out, in], added to what dx holds if `accumulate`.
template <class T>
struct LinearBackwardInput {
  LinearShape shape;
  const T* dy = nullptr;
  const T* w = nullptr;
  T* dx = nullptr;
  bool accumulate = false;
};
template <class T>
void linear_backward_input(const KernelContext& context, const LinearBackwardInput<T>& args);

/// dw[out, in] = dy[rows, out]^T * x[rows, in], and db[out] = the column sums of dy unless null;
/// both added to what is there if `accumulate`.
template <class T>
struct LinearBackwardWeight {
  LinearShape shape;
  const T* dy = nullptr;
  const T* x = nullptr;
  T* dw = nullptr;
  T* db = nullptr;
  bool accumulate = false;
};
template <class T>
void linear_backward_weight(const KernelContext& context, const LinearBackwardWeight<T>& args);

/// sums[cols] = the column sums of x[rows, cols], added to what is there if `accumulate`. Added up
/// in blocks of 16 and of 256 rows, so that an element passes 32 + rows/256 roundings, not `rows`.
template <class T>
struct ColumnSums {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const T* x = nullptr;
  T* sums = nullptr;
  bool accumulate = false;
};
template <class T>
void column_sums(const KernelContext& context, const ColumnSums<T>& args);

}  // namespace parplan::hw
