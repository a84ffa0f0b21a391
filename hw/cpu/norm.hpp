#pragma once

#include <cstdint>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/kernel_context.hpp"

namespace parplan::hw {

// Normalisation along rows. x, y and their gradients [rows, cols] row-major without gaps, gamma and
// beta [cols], mean and rstd [rows]. T is float or double. "(+)=" means: added to the output when
// its `accumulate` flag is set, stored otherwise. y may be x. dx may be dy, or x. Sums over rows
// (dgamma, dbeta) are taken in a fixed order: blocks of kRowsPerPartial rows, each summed by
// itself, then block after block onto the output; no result depends on anything but the operands.

/// y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + eps), with the biased variance, as
/// in PyTorch's LayerNorm (Ba, Kiros, Hinton 2016). Writes mean and rstd of each row for backward.
template <class T>
struct LayerNormForward {
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  T* mean;
  T* rstd;
  MatrixShape shape;
  double eps = 1e-5;
};
template <class T>
void layer_norm_forward(const LayerNormForward<T>& args, const KernelContext& context = {});

/// With h = (x - mean) rstd and g = dy gamma:
///   dx (+)= rstd (g - mean(g) - h mean(g h)),   dgamma (+)= sum over rows of dy h,   dbeta (+)=
///   sum over rows of dy.
/// `accumulate` is for dx, `accumulate_parameters` for dgamma and dbeta. `scratch` holds
/// layer_norm_backward_scratch_bytes<T>(cols) bytes, aligned for T.
template <class T>
struct LayerNormBackward {
  const T* x;
  const T* dy;
  const T* gamma;
  const T* mean;
  const T* rstd;
  T* dx;
  T* dgamma;
  T* dbeta;
  T* scratch;
  MatrixShape shape;
  bool accumulate = false;
  bool accumulate_parameters = false;
};
template <class T>
void layer_norm_backward(const LayerNormBackward<T>& args, const KernelContext& context = {});
template <class T>
[[nodiscard]] constexpr std::int64_t layer_norm_backward_scratch_bytes(std::int64_t cols) {
  return 2 * cols * static_cast<std::int64_t>(sizeof(T));
}

/// y = x rstd gamma, rstd = 1 / sqrt(mean(x^2) + eps) (Zhang, Sennrich 2019; as in Hugging Face's
/// LlamaRMSNorm). Writes rstd of each row for backward.
template <class T>
struct RmsNormForward {
  const T* x;
  const T* gamma;
  T* y;
  T* rstd;
  MatrixShape shape;
  double eps = 1e-6;
};
template <class T>
void rms_norm_forward(const RmsNormForward<T>& args, const KernelContext& context = {});

/// With h = x rstd and g = dy gamma: dx (+)= rstd (g - h mean(g h)), dgamma (+)= sum over rows of
/// dy h. `scratch` holds rms_norm_backward_scratch_bytes<T>(cols) bytes, aligned for T.
template <class T>
struct RmsNormBackward {
  const T* x;
  const T* dy;
  const T* gamma;
  const T* rstd;
  T* dx;
  T* dgamma;
  T* scratch;
  MatrixShape shape;
  bool accumulate = false;
  bool accumulate_parameters = false;
};
template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args, const KernelContext& context = {});
template <class T>
[[nodiscard]] constexpr std::int64_t rms_norm_backward_scratch_bytes(std::int64_t cols) {
  return cols * static_cast<std::int64_t>(sizeof(T));
}

/// Rows whose dgamma and dbeta are summed together before they are added to the output. In float
/// the error of a sum over n rows then grows with kRowsPerPartial + n / kRowsPerPartial instead of
/// n.
inline constexpr std::int64_t kRowsPerPartial = 64;

}  // namespace parplan::hw
