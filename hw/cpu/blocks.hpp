#pragma once

#include <algorithm>
#include <cstdint>

#include "hw/cpu/kernel_context.hpp"

namespace parplan::hw {

/// Extents of a row-major matrix without gaps: [rows, cols].
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  [[nodiscard]] constexpr std::int64_t count() const { return rows * cols; }
};

/// Elements a memory-bound kernel does between two polls: the slowest of them (libm in double,
/// about 20 ns an element) stays below a millisecond, and a call per block costs nothing beside it.
inline constexpr std::int64_t kBlockElements = 32768;

/// Part of a matrix: either whole rows (col 0, cols all of them) or a piece of a single row. Its
/// elements are adjacent in memory.
struct Block {
  std::int64_t row;
  std::int64_t col;
  std::int64_t rows;
  std::int64_t cols;
};

/// Cuts a matrix into blocks of about kBlockElements in row-major order; after each `body(block)`
/// comes a poll.
template <class Body>
void for_each_block(MatrixShape shape, const KernelContext& context, Body body) {
  if (shape.cols <= 0) {
    return;
  }
  const std::int64_t rows = std::max<std::int64_t>(1, kBlockElements / shape.cols);
  const std::int64_t cols = std::min(shape.cols, kBlockElements);
  for (std::int64_t r = 0; r < shape.rows; r += rows) {
    for (std::int64_t c = 0; c < shape.cols; c += cols) {
      body(Block{r, c, std::min(rows, shape.rows - r), std::min(cols, shape.cols - c)});
      context.poll();
    }
  }
}

/// The same over whole rows only, for kernels that reduce along a row: `body(first_row, last_row)`.
template <class Body>
void for_each_row_block(MatrixShape shape, const KernelContext& context, Body body) {
  const std::int64_t rows =
      std::max<std::int64_t>(1, kBlockElements / std::max<std::int64_t>(1, shape.cols));
  for (std::int64_t r = 0; r < shape.rows; r += rows) {
    body(r, std::min(r + rows, shape.rows));
    context.poll();
  }
}

}  // namespace parplan::hw
