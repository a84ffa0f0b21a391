#pragma once

#include <cstdint>

#include "hw/cpu/kernel_context.hpp"

namespace parplan::hw {

/// Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019) with the defaults of PyTorch's.
struct AdamSettings {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;        ///< true: AdamW
  double gradient_factor = 1.0;  ///< every gradient is multiplied by it first
};

/// A flat range of `count` parameters with their gradients and moments; moments start at zero. The
/// four do not overlap.
template <class T>
struct AdamRange {
  T* parameters;
  const T* gradients;
  T* first_moment;
  T* second_moment;
  std::int64_t count;
};

/// One update, number `step` (1 for the first), as torch.optim.Adam and AdamW do it without foreach
/// and fusion:
///   AdamW: p *= 1 - lr wd;   Adam: g += wd p
///   m += (1 - beta1) (g - m);   v = beta2 v + (1 - beta2) g^2
///   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
/// Bias corrections and all other scalars in double, elements in T (float or double). Gradients
/// stay as they are. One pass: 16 bytes read and 12 written per float parameter.
template <class T>
void adam_step(const AdamRange<T>& range, const AdamSettings& settings, std::int64_t step,
               const KernelContext& context = {});

}  // namespace parplan::hw
