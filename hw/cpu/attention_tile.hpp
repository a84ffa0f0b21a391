#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "hw/cpu/attention_vectors.hpp"
#include "sim/core/workspace.hpp"

// Attention of one tile of queries, forward and backward. Internal to hw/cpu. Scores are kept
// transposed, [keys, queries]: then every product reads its operands row by row, reductions over
// keys go down the lanes, and the part of the dropout hash that depends on the key is a constant of
// a row. They are in units of log2(e): probabilities are powers of two.

namespace parplan::hw {

inline constexpr std::int64_t kQueryTile = kAttentionQueryTile;
inline constexpr std::int64_t kKeyTile = kAttentionKeyTile;

/// The length of a tile's rows: a multiple of every vector length.
[[nodiscard]] constexpr std::int64_t padded(std::int64_t count) {
  return (count + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
}

/// Per query of a tile.
template <class T>
using QueryArray = std::array<T, kQueryTile>;

/// What one head's query tile is computed from. Keys and values: all of the head's.
template <class T>
struct TileTask {
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  std::int64_t first_query = 0;  ///< position of q's first row
  bool causal = false;
  T score_scale{};  ///< scale * log2(e)
  /// Row keys of the queries' dropout, and the threshold; 0: nothing is dropped.
  QueryArray<std::uint32_t> key_a{};
  QueryArray<std::uint32_t> key_b{};
  std::uint32_t threshold = 0;
  T keep_scale{1};  ///< 1 / (1 - p)

  /// Keys that some query of the tile sees.
  [[nodiscard]] std::int64_t visible_keys() const {
    return causal ? std::min(k.rows, first_query + q.rows) : k.rows;
  }
};

template <class T>
[[nodiscard]] Rows<const T> rows_from(const Rows<const T>& all, std::int64_t first,
                                      std::int64_t count) {
  return {all.data + first * all.stride, all.stride, count, all.cols};
}

/// Keys [first_key, first_key + keys) against all queries of a tile of width `queries` (padded).
struct ScoreTile {
  std::int64_t first_key;
  std::int64_t keys;
  std::int64_t queries;
};

/// scores[keys, queries] = rows[keys, head_dim] * columns[head_dim, queries].
template <class T, Isa kIsa>
PARPLAN_INLINE void multiply_scores(const Rows<const T>& rows, const T* columns,
                                    const ScoreTile& tile, T* scores) {
  multiply<T, kIsa>({tile.keys, tile.queries, rows.cols, rows.data + tile.first_key * rows.stride,
                     rows.stride, 1, columns, tile.queries, scores, tile.queries, false});
}

/// Sets the scores of keys that come after their query to minus infinity.
template <class T>
PARPLAN_INLINE void mask_future(const TileTask<T>& task, const ScoreTile& tile, T* scores) {
  for (std::int64_t j = 0; j < tile.keys; ++j) {
    const std::int64_t hidden =
        std::min(tile.first_key + j - task.first_query, task.q.rows);  // queries before the key
    for (std::int64_t i = 0; i < hidden; ++i) {
      scores[j * tile.queries + i] = -std::numeric_limits<T>::infinity();
    }
  }
}

// ---- forward

/// Scratch of a forward tile, in elements.
template <class T>
struct ForwardScratch {
  T* q;       // [head_dim, queries], transposed
  T* scores;  // [keys, queries]
  T* v;       // [keys, padded head_dim]
  T* out;     // [queries, padded head_dim]
};

/// Running maximum and sum of each query's probabilities.
template <class T>
struct SoftmaxState {
  QueryArray<T> maximum;
  QueryArray<T> sum;
  QueryArray<T> rescale;  ///< of what was summed before the last step
};

/// The largest of `start` and the scores of a vector of queries.
template <class T, Isa kIsa>
PARPLAN_INLINE VectorType<T, kIsa> largest_score(const T* column, const ScoreTile& tile,
                                                 const VectorType<T, kIsa>& start) {
  using V = VectorType<T, kIsa>;
  // Four chains: one would wait for the latency of each comparison.
  V most[4] = {start, start, start, start};
  std::int64_t j = 0;
  for (; j + 4 <= tile.keys; j += 4) {
#pragma GCC unroll 4
    for (int chain = 0; chain < 4; ++chain) {
      most[chain] = larger<T, kIsa>(at<T, kIsa>(column + (j + chain) * tile.queries), most[chain]);
    }
  }
  for (; j < tile.keys; ++j) {
    most[0] = larger<T, kIsa>(at<T, kIsa>(column + j * tile.queries), most[0]);
  }
  return larger<T, kIsa>(larger<T, kIsa>(most[0], most[1]), larger<T, kIsa>(most[2], most[3]));
}

/// Turns the scores of a vector of queries, at `i`, into probabilities relative to the new maximum;
/// dropped ones into 0.
template <class T, Isa kIsa, bool kDropout>
PARPLAN_INLINE void softmax_lanes(const TileTask<T>& task, const ScoreTile& tile, std::int64_t i,
                                  SoftmaxState<T>& state, T* scores) {
  using V = VectorType<T, kIsa>;
  T* column = scores + i;
  const V before = at<T, kIsa>(state.maximum.data() + i);
  const V most = largest_score<T, kIsa>(column, tile, before);
  const DropoutLanes mask(task.key_a.data() + i, task.key_b.data() + i, task.threshold);
  V sum{};
  for (std::int64_t j = 0; j < tile.keys; ++j) {
    V& score = at<T, kIsa>(column + j * tile.queries);
    const V probability = exp2_lanes<T, kIsa>(score - most);
    sum += probability;
    if constexpr (kDropout) {
      const auto key = static_cast<std::uint32_t>(tile.first_key + j);
      score = mask.dropped<T, kIsa>(key) ? V{} : probability;
    } else {
      score = probability;
    }
  }
  const V rescale = exp2_lanes<T, kIsa>(before - most);
  at<T, kIsa>(state.maximum.data() + i) = most;
  at<T, kIsa>(state.rescale.data() + i) = rescale;
  V& total = at<T, kIsa>(state.sum.data() + i);
  total = total * rescale + sum;
}

template <class T, Isa kIsa, bool kDropout>
PARPLAN_INLINE void softmax_step(const TileTask<T>& task, const ScoreTile& tile,
                                 SoftmaxState<T>& state, T* scores) {
  for (std::int64_t i = 0; i < tile.queries; i += Lanes<T, kIsa>::kLength) {
    softmax_lanes<T, kIsa, kDropout>(task, tile, i, state, scores);
  }
}

/// Multiplies each row of rows[count, cols] by its factor.
template <class T, Isa kIsa>
PARPLAN_INLINE void scale_rows(T* rows, std::int64_t count, std::int64_t cols, const T* factors) {
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t c = 0; c < cols; c += Lanes<T, kIsa>::kLength) {
      at<T, kIsa>(rows + r * cols + c) *= factors[r];
    }
  }
}

/// Writes the tile's rows of `out` and lse[q.rows].
template <class T, Isa kIsa>
PARPLAN_INLINE void forward_tile(const TileTask<T>& task, const ForwardScratch<T>& scratch,
                                 const Rows<T>& out, T* lse) {
  const std::int64_t queries = padded(task.q.rows);
  const std::int64_t width = padded(task.v.cols);
  SoftmaxState<T> state;
  state.maximum.fill(-std::numeric_limits<T>::infinity());
  state.sum.fill(T{0});
  transpose_rows<T, kIsa>(task.q, task.score_scale, scratch.q, queries);
  const std::int64_t keys = task.visible_keys();
  for (std::int64_t first = 0; first < keys; first += kKeyTile) {
    const ScoreTile tile{first, std::min(kKeyTile, keys - first), queries};
    multiply_scores<T, kIsa>(task.k, scratch.q, tile, scratch.scores);
    if (task.causal && first + tile.keys > task.first_query + 1) {
      mask_future(task, tile, scratch.scores);
    }
    if (task.threshold != 0) {
      softmax_step<T, kIsa, true>(task, tile, state, scratch.scores);
    } else {
      softmax_step<T, kIsa, false>(task, tile, state, scratch.scores);
    }
    if (first > 0) {
      scale_rows<T, kIsa>(scratch.out, task.q.rows, width, state.rescale.data());
    }
    copy_rows<T, kIsa>(rows_from(task.v, first, tile.keys), scratch.v, width);
    multiply<T, kIsa>({task.q.rows, width, tile.keys, scratch.scores, 1, queries, scratch.v, width,
                       scratch.out, width, first > 0});
  }
  for (std::int64_t i = 0; i < task.q.rows; ++i) {
    const auto r = static_cast<std::size_t>(i);
    write_rows<T, kIsa>(scratch.out + i * width, width, task.keep_scale / state.sum[r],
                        {out.data + i * out.stride, out.stride, 1, out.cols}, false);
    lse[i] = (state.maximum[r] + std::log2(state.sum[r])) * std::numbers::ln2_v<T>;
  }
}

// ---- backward

/// Scratch of a backward tile, in elements.
template <class T>
struct BackwardScratch {
  T* q_columns;     // [head_dim, queries], transposed, times the scale of scores
  T* dout_columns;  // [head_dim, queries], transposed, times keep_scale
  T* scores;        // [keys, queries], then the dropped probabilities
  T* gradients;     // [keys, queries], of the scores
  T* q;             // [queries, padded head_dim]
  T* dout;          // [queries, padded head_dim]
  T* dq;            // [queries, padded head_dim]
  T* k;             // [keys, padded head_dim]
  T* dk;            // [keys, padded head_dim]
  T* dv;            // [keys, padded head_dim]
};

/// What backward needs of a query tile beside its task.
template <class T>
struct BackwardRows {
  Rows<const T> out;
  Rows<const T> dout;
  const T* lse = nullptr;
  Rows<T> dq;
  T scale{};  ///< of the scores
};

/// The sum of products of two rows.
template <class T, Isa kIsa>
PARPLAN_INLINE T dot(const T* a, const T* b, std::int64_t count) {
  using V = VectorType<T, kIsa>;
  constexpr std::int64_t kLength = Lanes<T, kIsa>::kLength;
  V lanes{};
  std::int64_t c = 0;
  for (; c + kLength <= count; c += kLength) {
    lanes += at<T, kIsa>(a + c) * at<T, kIsa>(b + c);
  }
  T sum{};
  for (; c < count; ++c) {
    sum += a[c] * b[c];
  }
  for (int i = 0; i < kLength; ++i) {
    sum += lanes[i];
  }
  return sum;
}

/// From scores and the gradients of the dropped probabilities to the dropped probabilities (still
/// without keep_scale) and the gradients of the scores, for the vector of queries at `i`:
/// ds = p (dp - sum p dp), where the sum is dout . out.
template <class T, Isa kIsa, bool kDropout>
PARPLAN_INLINE void softmax_backward_lanes(const TileTask<T>& task, const ScoreTile& tile,
                                           std::int64_t i, const T* lse_and_sum,
                                           const BackwardScratch<T>& scratch) {
  using V = VectorType<T, kIsa>;
  const V lse = at<T, kIsa>(lse_and_sum + i);
  const V inner = at<T, kIsa>(lse_and_sum + kQueryTile + i);
  const DropoutLanes mask(task.key_a.data() + i, task.key_b.data() + i, task.threshold);
  for (std::int64_t j = 0; j < tile.keys; ++j) {
    V& score = at<T, kIsa>(scratch.scores + j * tile.queries + i);
    V& gradient = at<T, kIsa>(scratch.gradients + j * tile.queries + i);
    const V probability = exp2_lanes<T, kIsa>(score - lse);
    if constexpr (kDropout) {
      const auto dropped = mask.dropped<T, kIsa>(static_cast<std::uint32_t>(tile.first_key + j));
      score = dropped ? V{} : probability;
      gradient = probability * ((dropped ? V{} : gradient) - inner);
    } else {
      score = probability;
      gradient = probability * (gradient - inner);
    }
  }
}

template <class T, Isa kIsa>
PARPLAN_INLINE void softmax_backward(const TileTask<T>& task, const ScoreTile& tile,
                                     const BackwardRows<T>& rows,
                                     const BackwardScratch<T>& scratch) {
  std::array<T, 2 * kQueryTile> lse_and_sum{};
  for (std::int64_t i = 0; i < task.q.rows; ++i) {
    const auto r = static_cast<std::size_t>(i);
    lse_and_sum[r] = rows.lse[i] * std::numbers::log2e_v<T>;
    lse_and_sum[kQueryTile + r] = dot<T, kIsa>(
        rows.out.data + i * rows.out.stride, rows.dout.data + i * rows.dout.stride, rows.out.cols);
  }
  for (std::int64_t i = 0; i < tile.queries; i += Lanes<T, kIsa>::kLength) {
    if (task.threshold != 0) {
      softmax_backward_lanes<T, kIsa, true>(task, tile, i, lse_and_sum.data(), scratch);
    } else {
      softmax_backward_lanes<T, kIsa, false>(task, tile, i, lse_and_sum.data(), scratch);
    }
  }
}

/// Adds the tile's part to scratch.dk (without the scale of scores) and scratch.dv (without
/// keep_scale), and writes or adds its part of dq. scratch.k holds the tile's keys.
template <class T, Isa kIsa>
PARPLAN_INLINE void backward_tile(const TileTask<T>& task, const ScoreTile& tile,
                                  const BackwardRows<T>& rows, const BackwardScratch<T>& scratch,
                                  bool accumulate_dq) {
  const std::int64_t width = padded(task.q.cols);
  transpose_rows<T, kIsa>(task.q, task.score_scale, scratch.q_columns, tile.queries);
  transpose_rows<T, kIsa>(rows.dout, task.keep_scale, scratch.dout_columns, tile.queries);
  copy_rows<T, kIsa>(task.q, scratch.q, width);
  copy_rows<T, kIsa>(rows.dout, scratch.dout, width);
  multiply_scores<T, kIsa>(task.k, scratch.q_columns, tile, scratch.scores);
  multiply_scores<T, kIsa>(task.v, scratch.dout_columns, tile, scratch.gradients);
  if (task.causal && tile.first_key + tile.keys > task.first_query + 1) {
    mask_future(task, tile, scratch.scores);
  }
  softmax_backward<T, kIsa>(task, tile, rows, scratch);
  multiply<T, kIsa>({tile.keys, width, task.q.rows, scratch.scores, tile.queries, 1, scratch.dout,
                     width, scratch.dv, width, true});
  multiply<T, kIsa>({tile.keys, width, task.q.rows, scratch.gradients, tile.queries, 1, scratch.q,
                     width, scratch.dk, width, true});
  multiply<T, kIsa>({task.q.rows, width, tile.keys, scratch.gradients, 1, tile.queries, scratch.k,
                     width, scratch.dq, width, false});
  write_rows<T, kIsa>(scratch.dq, width, rows.scale, rows.dq, accumulate_dq);
}

}  // namespace parplan::hw
