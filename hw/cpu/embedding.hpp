#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/kernel_context.hpp"
#include "hw/random.hpp"

namespace parplan::hw {

// Token, learned position and rotary position embeddings. Rows are positions of sequences, sequence
// after sequence (batch first); T is float or double.

/// A rank's rows of an embedding table: rows [offset, offset + rows) of a vocabulary of `vocab`
/// tokens; it may reach beyond the vocabulary (padding, never looked up).
struct VocabShard {
  std::int64_t vocab;
  std::int64_t offset;
  std::int64_t rows;
};

/// y[r] = table[ids[r] - offset], or zero if another shard owns the token: the sum over all shards
/// is the embedding. ids [shape.rows], table [shard.rows, shape.cols], y [shape.rows, shape.cols].
/// Throws InputError naming the row and the id if an id is outside [0, vocab).
template <class T>
struct EmbeddingForward {
  const std::int32_t* ids;
  const T* table;
  T* y;
  MatrixShape shape;
  VocabShard shard;
};
template <class T>
void embedding_forward(const EmbeddingForward<T>& args, const KernelContext& context = {});

/// dtable[ids[r] - offset] += dy[r] for the rows of this shard, in the order of r; with
/// `accumulate` unset dtable [shard.rows, shape.cols] is cleared first. Ids are checked as in
/// forward.
template <class T>
struct EmbeddingBackward {
  const std::int32_t* ids;
  const T* dy;
  T* dtable;
  MatrixShape shape;
  VocabShard shard;
  bool accumulate = false;
};
template <class T>
void embedding_backward(const EmbeddingBackward<T>& args, const KernelContext& context = {});

/// Which position a row has: row r of `sequence` rows per sequence is at r % sequence + offset.
struct RowPositions {
  std::int64_t sequence;
  std::int64_t offset = 0;
};

/// y = dropout(x + table[position of the row]); x, y [rows, cols], table [table_rows, cols]. y may
/// be x.
template <class T>
struct PositionForward {
  const T* x;
  const T* table;
  T* y;
  MatrixShape shape;
  std::int64_t table_rows;
  RowPositions positions;
  DropoutSpec dropout;
};
template <class T>
void position_forward(const PositionForward<T>& args, const KernelContext& context = {});

/// With d = dropout'(dy): dx = d (skipped if null; may be dy), dtable[position] += d, sequences in
/// order; with `accumulate` unset dtable [table_rows, cols] is cleared first.
template <class T>
struct PositionBackward {
  const T* dy;
  T* dx;
  T* dtable;
  MatrixShape shape;
  std::int64_t table_rows;
  RowPositions positions;
  DropoutSpec dropout;
  bool accumulate = false;
};
template <class T>
void position_backward(const PositionBackward<T>& args, const KernelContext& context = {});

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
///   w < n / high_freq_factor: f;   w > n / low_freq_factor: f / factor;   between: (1 - s) f /
///   factor + s f, s = (n / w - low_freq_factor) / (high_freq_factor - low_freq_factor).
[[nodiscard]] std::vector<double> rotary_frequencies(
    std::int64_t head_dim, double theta, const std::optional<Llama3RopeScaling>& scaling = {});

/// Forward turns by the angle, backward by its negative (the transpose of a rotation is its
/// inverse).
enum class RotaryDirection { kForward, kBackward };

/// In place on x [rows, heads, head_dim], `stride` elements from row to row (heads * head_dim, or
/// more where the heads are a part of a fused projection's output). Rotate-half convention of
/// Hugging Face's Llama: element i of a head pairs with element i + head_dim / 2; both turn by
/// position * frequencies[i]. Angles, sines and cosines are taken in double and rounded to T
/// (Hugging Face: all in float). head_dim is even and at most kMaxRotaryHeadDim.
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
inline constexpr std::int64_t kMaxRotaryHeadDim = 1024;

}  // namespace parplan::hw
