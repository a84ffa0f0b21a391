#pragma once

#include <cstdint>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/kernel_context.hpp"
#include "hw/random.hpp"

namespace parplan::hw {

// Element by element kernels of the CPU device, one pass over memory each. T is float or double.
// Matrices are row-major without gaps unless a stride says otherwise. An output may be the very
// same array as an input; any other overlap is an error of the caller. `dropout.key`, offsets: see
// DropoutSpec; with p = 0 nothing is dropped. "(+)=" means: added to the output when its
// `accumulate` flag is set, stored otherwise. All of them are thread-safe on distinct outputs.

/// relu: max(x, 0). gelu_erf: x Phi(x), Phi the normal distribution. gelu_tanh: 0.5 x (1 +
/// tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks, Gimpel 2016). silu: x / (1 + e^-x).
enum class Activation { kRelu, kGeluErf, kGeluTanh, kSilu };

/// y = dropout(act(x)); x, y [rows, cols].
template <class T>
struct ActivationForward {
  const T* x;
  T* y;
  MatrixShape shape;
  Activation kind;
  DropoutSpec dropout;
};
template <class T>
void activation_forward(const ActivationForward<T>& args, const KernelContext& context = {});

/// dx (+)= dropout'(dy) act'(x). `saved` is what forward leaves for backward: for relu its output y
/// (y > 0 says both "positive" and "kept"), for the others its input x.
template <class T>
struct ActivationBackward {
  const T* saved;
  const T* dy;
  T* dx;
  MatrixShape shape;
  Activation kind;
  DropoutSpec dropout;
  bool accumulate = false;
};
template <class T>
void activation_backward(const ActivationBackward<T>& args, const KernelContext& context = {});

/// y = silu(gate) * up; y [rows, cols]. gate and up have `stride` elements from row to row: cols
/// where they are separate matrices, 2 cols where they are the two halves of the rows of one fused
/// projection.
template <class T>
struct SwigluForward {
  const T* gate;
  const T* up;
  T* y;
  MatrixShape shape;
  std::int64_t stride;
};
template <class T>
void swiglu_forward(const SwigluForward<T>& args, const KernelContext& context = {});

/// dgate = dy up silu'(gate), dup = dy silu(gate); strides as in forward. dgate may be gate, dup
/// may be up.
template <class T>
struct SwigluBackward {
  const T* gate;
  const T* up;
  const T* dy;
  T* dgate;
  T* dup;
  MatrixShape shape;
  std::int64_t stride;
};
template <class T>
void swiglu_backward(const SwigluBackward<T>& args, const KernelContext& context = {});

/// y = a + dropout(b), all [rows, cols].
template <class T>
struct ResidualForward {
  const T* a;
  const T* b;
  T* y;
  MatrixShape shape;
  DropoutSpec dropout;
};
template <class T>
void residual_forward(const ResidualForward<T>& args, const KernelContext& context = {});

/// da (+)= dy, db (+)= dropout'(dy). `da` may be null: then dy itself serves as the gradient of a.
template <class T>
struct ResidualBackward {
  const T* dy;
  T* da;
  T* db;
  MatrixShape shape;
  DropoutSpec dropout;
  bool accumulate_a = false;
  bool accumulate_b = false;
};
template <class T>
void residual_backward(const ResidualBackward<T>& args, const KernelContext& context = {});

/// y += x over `count` elements.
template <class T>
void add_elements(T* y, const T* x, std::int64_t count, const KernelContext& context = {});

/// y = x; the two do not overlap.
template <class T>
void copy_elements(T* y, const T* x, std::int64_t count, const KernelContext& context = {});

/// y = value.
template <class T>
void fill_elements(T* y, T value, std::int64_t count, const KernelContext& context = {});

/// y *= factor.
template <class T>
void scale_elements(T* y, T factor, std::int64_t count, const KernelContext& context = {});

}  // namespace parplan::hw
