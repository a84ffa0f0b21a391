#include "hw/cpu/embedding.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "hw/cpu/dropout_mask.hpp"
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

#define PARPLAN_INSTANTIATE(T)                                                         \
  template void embedding_forward(const EmbeddingForward<T>&, const KernelContext&);   \
  template void embedding_backward(const EmbeddingBackward<T>&, const KernelContext&); \
  template void position_forward(const PositionForward<T>&, const KernelContext&);     \
  template void position_backward(const PositionBackward<T>&, const KernelContext&);
PARPLAN_INSTANTIATE(float)
PARPLAN_INSTANTIATE(double)
#undef PARPLAN_INSTANTIATE

}  // namespace parplan::hw
