#pragma once

#include <cstdint>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/kernel_context.hpp"

namespace parplan::hw {

// Losses. T is float or double; sums over rows are in double.

/// Targets with this value count neither in the loss nor in the gradient (PyTorch's default).
inline constexpr std::int32_t kIgnoreIndex = -100;

/// A rank's columns of the logits: columns [offset, offset + cols) of a vocabulary of `vocab`
/// classes. Columns at or beyond `vocab` are padding: no part of the softmax, whatever they hold.
struct ClassShard {
  std::int64_t vocab;
  std::int64_t offset;
};

// Cross-entropy over logits whose columns are spread over ranks, in three steps: each rank's
// statistics, exchanged between ranks (3 numbers a row); the loss from the statistics of all; the
// gradient from the row's log-sum-exp.

/// Step 1: stats[r] = {max over the shard, sum of e^(x - max), logit of the target or 0 if another
/// shard has it}. A shard of padding only gives {-infinity, 0, 0}. logits [rows, cols], targets
/// [rows], stats [rows, 3]. Throws InputError naming the row and the target if a target is neither
/// a class nor kIgnoreIndex.
template <class T>
struct CrossEntropyStats {
  const T* logits;
  const std::int32_t* targets;
  T* stats;
  MatrixShape shape;
  ClassShard shard;
};
template <class T>
void cross_entropy_stats(const CrossEntropyStats<T>& args, const KernelContext& context = {});

/// The sum of -log softmax(x)[target] over the rows that count, and how many those are.
struct LossSum {
  double loss = 0.0;
  std::int64_t counted = 0;
};

/// Step 2: combines stats [shards, rows, 3] into lse [rows], the log-sum-exp over all classes (of
/// ignored rows too), and returns the loss of these rows. Every shard gets the same bits from the
/// same statistics.
template <class T>
struct CrossEntropyCombine {
  const T* stats;
  const std::int32_t* targets;
  T* lse;
  std::int64_t rows;
  std::int64_t shards;
};
template <class T>
[[nodiscard]] LossSum cross_entropy_combine(const CrossEntropyCombine<T>& args);

/// Step 3, in place: logits become scale * (e^(x - lse) - [column is the target]); padding columns
/// and ignored rows become 0. For the mean over n targets scale is 1 / n.
template <class T>
struct CrossEntropyBackward {
  T* logits;
  const std::int32_t* targets;
  const T* lse;
  MatrixShape shape;
  ClassShard shard;
  double scale;
};
template <class T>
void cross_entropy_backward(const CrossEntropyBackward<T>& args, const KernelContext& context = {});

/// How many of `rows` targets count.
[[nodiscard]] std::int64_t count_targets(const std::int32_t* targets, std::int64_t rows);

/// scale * sum over `count` elements of (y - t)^2.
template <class T>
[[nodiscard]] double squared_error(const T* y, const T* t, std::int64_t count, double scale);

/// dy = 2 scale (y - t); dy may be y.
template <class T>
void squared_error_backward(const T* y, const T* t, T* dy, std::int64_t count, double scale);

}  // namespace parplan::hw
