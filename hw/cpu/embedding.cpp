#include "hw/cpu/embedding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>

#include "hw/cpu/dropout_row.hpp"
#include "hw/cpu/vector_math.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

/// Checks every id before anything is written, so that a bad batch leaves no half-done output.
void check_ids(const std::int32_t* ids, std::int64_t rows, std::int64_t vocab) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if (ids[r] < 0 || ids[r] >= vocab) {
      throw InputError("token id " + std::to_string(ids[r]) + " at row " + std::to_string(r) +
                       " of the batch is outside the vocabulary [0, " + std::to_string(vocab) +
                       ")");
    }
  }
}

template <class T>
void copy_row(T* to, const T* from, std::int64_t cols) {
  std::memcpy(to, from, static_cast<std::size_t>(cols) * sizeof(T));
}

template <class T>
PARPLAN_VECTOR_CLONES void add_row(T* to, const T* from, std::int64_t cols) {
#pragma omp simd
  for (std::int64_t c = 0; c < cols; ++c) {
    to[c] += from[c];
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void position_forward_rows(const PositionForward<T>& args,
                                                 const DropoutMask<T>& mask, std::int64_t first,
                                                 std::int64_t last) {
  const auto cols = static_cast<std::int32_t>(args.shape.cols);
  for (std::int64_t r = first; r < last; ++r) {
    const std::int64_t position = r % args.positions.sequence + args.positions.offset;
    const T* table = args.table + position * cols;
    const T* x = args.x + r * cols;
    T* y = args.y + r * cols;
    if (mask.active()) {
      const auto row = mask.row(r, 0);
#pragma omp simd
      for (std::int32_t c = 0; c < cols; ++c) {
        y[c] = row.apply(x[c] + table[c], c);
      }
    } else {
#pragma omp simd
      for (std::int32_t c = 0; c < cols; ++c) {
        y[c] = x[c] + table[c];
      }
    }
  }
}

template <bool kStore, class T>
PARPLAN_ALWAYS_INLINE void position_backward_row(const PositionBackward<T>& args,
                                                 const DropoutMask<T>& mask, std::int64_t r) {
  const auto cols = static_cast<std::int32_t>(args.shape.cols);
  const std::int64_t position = r % args.positions.sequence + args.positions.offset;
  T* dtable = args.dtable + position * cols;
  const T* dy = args.dy + r * cols;
  T* dx = kStore ? args.dx + r * cols : nullptr;
  const auto row = mask.row(r, 0);
  if (mask.active()) {
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      const T value = row.apply(dy[c], c);
      dtable[c] += value;
      if constexpr (kStore) {
        dx[c] = value;
      }
    }
  } else {
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      const T value = dy[c];
      dtable[c] += value;
      if constexpr (kStore) {
        dx[c] = value;
      }
    }
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void position_backward_rows(const PositionBackward<T>& args,
                                                  const DropoutMask<T>& mask, std::int64_t first,
                                                  std::int64_t last) {
  for (std::int64_t r = first; r < last; ++r) {
    if (args.dx != nullptr) {
      position_backward_row<true>(args, mask, r);
    } else {
      position_backward_row<false>(args, mask, r);
    }
  }
}

void check_positions(const RowPositions& positions, std::int64_t table_rows) {
  ensure(positions.sequence > 0 && positions.offset >= 0 &&
             positions.offset + positions.sequence <= table_rows,
         "every position of a sequence has a row in the position table");
}

/// Sine and cosine of every pair of a head at one position.
template <class T>
struct Turn {
  std::array<T, kMaxRotaryHeadDim / 2> cosine;
  std::array<T, kMaxRotaryHeadDim / 2> sine;
};

template <class T>
void set_turn(Turn<T>& turn, const Rotary<T>& args, std::int64_t position) {
  const double sign = args.direction == RotaryDirection::kForward ? 1.0 : -1.0;
  for (std::int64_t i = 0; i < args.head_dim / 2; ++i) {
    const double angle = static_cast<double>(position) * args.frequencies[i];
    const auto at = static_cast<std::size_t>(i);
    turn.cosine[at] = static_cast<T>(std::cos(angle));
    turn.sine[at] = static_cast<T>(sign * std::sin(angle));
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void turn_row(T* row, const Turn<T>& turn, std::int64_t heads,
                                    std::int64_t half) {
  const T* cosine = turn.cosine.data();
  const T* sine = turn.sine.data();
  for (std::int64_t head = 0; head < heads; ++head) {
    T* low = row + head * 2 * half;
    T* high = low + half;
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
      const T a = low[i];
      const T b = high[i];
      low[i] = a * cosine[i] - b * sine[i];
      high[i] = b * cosine[i] + a * sine[i];
    }
  }
}

}  // namespace

template <class T>
void embedding_forward(const EmbeddingForward<T>& args, const KernelContext& context) {
  check_ids(args.ids, args.shape.rows, args.shard.vocab);
  const std::int64_t cols = args.shape.cols;
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t local = args.ids[r] - args.shard.offset;
      if (local >= 0 && local < args.shard.rows) {
        copy_row(args.y + r * cols, args.table + local * cols, cols);
      } else {
        std::fill_n(args.y + r * cols, cols, T{0});
      }
    }
  });
}

template <class T>
void embedding_backward(const EmbeddingBackward<T>& args, const KernelContext& context) {
  check_ids(args.ids, args.shape.rows, args.shard.vocab);
  const std::int64_t cols = args.shape.cols;
  if (!args.accumulate) {
    for_each_row_block({args.shard.rows, cols}, context,
                       [&](std::int64_t first, std::int64_t last) {
                         std::fill_n(args.dtable + first * cols, (last - first) * cols, T{0});
                       });
  }
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t local = args.ids[r] - args.shard.offset;
      if (local >= 0 && local < args.shard.rows) {
        add_row(args.dtable + local * cols, args.dy + r * cols, cols);
      }
    }
  });
}

template <class T>
void position_forward(const PositionForward<T>& args, const KernelContext& context) {
  check_positions(args.positions, args.table_rows);
  const DropoutMask<T> mask(args.dropout);
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    position_forward_rows(args, mask, first, last);
  });
}

template <class T>
void position_backward(const PositionBackward<T>& args, const KernelContext& context) {
  check_positions(args.positions, args.table_rows);
  const DropoutMask<T> mask(args.dropout);
  if (!args.accumulate) {
    std::fill_n(args.dtable, args.table_rows * args.shape.cols, T{0});
  }
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    position_backward_rows(args, mask, first, last);
  });
}

std::vector<double> rotary_frequencies(std::int64_t head_dim, double theta,
                                       const std::optional<Llama3RopeScaling>& scaling) {
  ensure(head_dim > 0 && head_dim % 2 == 0, "a rotary head has an even dimension");
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    double f = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (scaling) {
      // Turns in the original context: many turns keep their frequency, few are stretched by
      // `factor`.
      const double turns = scaling->original_max_position_embeddings * f / (2 * std::numbers::pi);
      const double s = (turns - scaling->low_freq_factor) /
                       (scaling->high_freq_factor - scaling->low_freq_factor);
      const double kept = std::clamp(s, 0.0, 1.0);
      f = (1.0 - kept) * f / scaling->factor + kept * f;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

template <class T>
void rotary(const Rotary<T>& args, const KernelContext& context) {
  ensure(args.head_dim > 0 && args.head_dim % 2 == 0 && args.head_dim <= kMaxRotaryHeadDim,
         "a rotary head has an even dimension of at most 1024");
  ensure(args.stride >= args.heads * args.head_dim, "rows of heads do not overlap");
  ensure(args.positions.sequence > 0, "a sequence has positions");
  Turn<T> turn;
  std::int64_t done = 0;
  // By position, so that the sines of a position serve all sequences and heads.
  for (std::int64_t s = 0; s < std::min(args.positions.sequence, args.rows); ++s) {
    set_turn(turn, args, s + args.positions.offset);
    for (std::int64_t r = s; r < args.rows; r += args.positions.sequence) {
      turn_row(args.x + r * args.stride, turn, args.heads, args.head_dim / 2);
      done += args.heads * args.head_dim;
      if (done >= kBlockElements) {
        context.poll();
        done = 0;
      }
    }
  }
}

#define PARPLAN_INSTANTIATE(T)                                                         \
  template void embedding_forward(const EmbeddingForward<T>&, const KernelContext&);   \
  template void embedding_backward(const EmbeddingBackward<T>&, const KernelContext&); \
  template void position_forward(const PositionForward<T>&, const KernelContext&);     \
  template void position_backward(const PositionBackward<T>&, const KernelContext&);   \
  template void rotary(const Rotary<T>&, const KernelContext&);
PARPLAN_INSTANTIATE(float)
PARPLAN_INSTANTIATE(double)
#undef PARPLAN_INSTANTIATE

}  // namespace parplan::hw
