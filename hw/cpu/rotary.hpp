#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hw/cpu/kernel_context.hpp"
#include "hw/cpu/row_positions.hpp"

namespace parplan::hw {

// Rotary position embedding. Rows are positions of sequences, sequence after sequence (batch
// first); T is float or double.

/// `rope_scaling` with rope_type "llama3" of a Hugging Face configuration (Llama 3.1 and later).
struct Llama3RopeScaling {
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  double original_max_position_embeddings;
};

/// Angular frequencies [head_dim / 2] of the rotary embedding: f_i = theta^(-2i / head_dim) (Su et
/// al. 2021). With scaling (as in Hugging Face's modeling_rope_utils, "llama3"; n =
/// original_max_position_embeddings, w = 2 pi / f):
///   w < n / high_freq_factor: f;   w > n / low_freq_factor: f / factor;
///   between: (1 - s) f / factor + s f, s = (n / w - low_freq_factor) / (high_freq_factor -
///   low_freq_factor).
[[nodiscard]] std::vector<double> rotary_frequencies(
    std::int64_t head_dim, double theta, const std::optional<Llama3RopeScaling>& scaling = {});

/// Forward turns by the angle, backward by its negative (the transpose of a rotation is its
/// inverse).
enum class RotaryDirection { kForward, kBackward };

inline constexpr std::int64_t kMaxRotaryHeadDim = 512;

/// In place on x [rows, heads, head_dim], `stride` elements from row to row (heads * head_dim, or
/// more where the heads are a part of a fused projection's output). Rotate-half convention of
/// Hugging Face's Llama: element i of a head pairs with element i + head_dim / 2; both turn by
/// position * frequencies[i]. Angles, sines and cosines are taken in double and rounded to T
/// (Hugging Face: all in float). They depend on the position alone, so shards of a sequence turn as
/// the whole does. head_dim is even and at most kMaxRotaryHeadDim.
template <class T>
struct Rotary {
  T* x;
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t head_dim;
  std::int64_t stride;
  RowPositions positions;
  const double* frequencies;
  RotaryDirection direction = RotaryDirection::kForward;
};
template <class T>
void rotary(const Rotary<T>& args, const KernelContext& context = {});

}  // namespace parplan::hw
