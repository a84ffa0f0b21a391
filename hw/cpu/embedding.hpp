#pragma once

#include <cstdint>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/kernel_context.hpp"
#include "hw/cpu/rotary.hpp"
#include "hw/cpu/row_positions.hpp"
#include "hw/random.hpp"

namespace parplan::hw {

// Token and learned position embeddings; rotary ones come along from hw/cpu/rotary.hpp. Rows are
// positions of sequences, sequence after sequence (batch first); T is float or double.

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

}  // namespace parplan::hw
