#include "hw/cpu/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "hw/cpu/vector_math.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

/// Columns of the shard that are classes.
std::int64_t real_cols(const MatrixShape& shape, const ClassShard& shard) {
  return std::clamp<std::int64_t>(shard.vocab - shard.offset, 0, shape.cols);
}

void check_targets(const std::int32_t* targets, std::int64_t rows, std::int64_t vocab) {
  for (std::int64_t r = 0; r < rows; ++r) {
    if ((targets[r] < 0 || targets[r] >= vocab) && targets[r] != kIgnoreIndex) {
      throw InputError("target " + std::to_string(targets[r]) + " at row " + std::to_string(r) +
                       " of the batch is neither a class in [0, " + std::to_string(vocab) +
                       ") nor the ignored value " + std::to_string(kIgnoreIndex));
    }
  }
}

/// Exponentials summed in T before the sum goes on in double: the error of a row's sum must not
/// grow with the vocabulary.
constexpr std::int64_t kColsPerPartial = 512;

/// The second pass over a row finds it in the second-level cache.
template <class T>
PARPLAN_VECTOR_CLONES void stats_rows(const CrossEntropyStats<T>& args, std::int64_t cols,
                                      std::int64_t first, std::int64_t last) {
  for (std::int64_t r = first; r < last; ++r) {
    const T* x = args.logits + r * args.shape.cols;
    T largest = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : largest)
    for (std::int64_t c = 0; c < cols; ++c) {
      largest = x[c] > largest ? x[c] : largest;
    }
    double total = 0.0;
    for (std::int64_t begin = 0; begin < cols; begin += kColsPerPartial) {
      const std::int64_t end = std::min(begin + kColsPerPartial, cols);
      T sum{0};
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = begin; c < end; ++c) {
        sum += vector_exp(x[c] - largest);
      }
      total += static_cast<double>(sum);
    }
    const std::int64_t target = args.targets[r] - args.shard.offset;
    const bool mine = args.targets[r] != kIgnoreIndex && target >= 0 && target < cols;
    T* stats = args.stats + 3 * r;
    stats[0] = largest;
    stats[1] = static_cast<T>(total);
    stats[2] = mine ? x[target] : T{0};
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void backward_rows(const CrossEntropyBackward<T>& args, std::int64_t real,
                                         std::int64_t first, std::int64_t last) {
  const std::int64_t cols = args.shape.cols;
  const T scale = static_cast<T>(args.scale);
  for (std::int64_t r = first; r < last; ++r) {
    T* x = args.logits + r * cols;
    if (args.targets[r] == kIgnoreIndex) {
      std::fill_n(x, cols, T{0});
      continue;
    }
    const T lse = args.lse[r];
#pragma omp simd
    for (std::int64_t c = 0; c < real; ++c) {
      x[c] = vector_exp(x[c] - lse) * scale;
    }
    std::fill_n(x + real, cols - real, T{0});
    const std::int64_t target = args.targets[r] - args.shard.offset;
    if (target >= 0 && target < real) {
      x[target] -= scale;
    }
  }
}

template <class T>
PARPLAN_VECTOR_CLONES double squares(const T* y, const T* t, std::int64_t count) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    const double difference = static_cast<double>(y[i]) - static_cast<double>(t[i]);
    sum += difference * difference;
  }
  return sum;
}

template <class T>
PARPLAN_VECTOR_CLONES void differences(const T* y, const T* t, T* dy, std::int64_t count,
                                       T factor) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    dy[i] = factor * (y[i] - t[i]);
  }
}

}  // namespace

template <class T>
void cross_entropy_stats(const CrossEntropyStats<T>& args, const KernelContext& context) {
  check_targets(args.targets, args.shape.rows, args.shard.vocab);
  const std::int64_t cols = real_cols(args.shape, args.shard);
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    stats_rows(args, cols, first, last);
  });
}

template <class T>
LossSum cross_entropy_combine(const CrossEntropyCombine<T>& args) {
  LossSum total;
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const T* first = args.stats + 3 * r;
    const std::int64_t stride = 3 * args.rows;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t s = 0; s < args.shards; ++s) {
      largest = std::max(largest, static_cast<double>(first[s * stride]));
    }
    double sum = 0.0;
    double target = 0.0;
    for (std::int64_t s = 0; s < args.shards; ++s) {
      const T* stats = first + s * stride;
      // A shard without classes has no part; e^(-inf - max) would say so too, unless max is -inf as
      // well.
      if (stats[1] != T{0}) {
        sum += static_cast<double>(stats[1]) * std::exp(static_cast<double>(stats[0]) - largest);
      }
      target += static_cast<double>(stats[2]);
    }
    args.lse[r] = static_cast<T>(largest + std::log(sum));
    if (args.targets[r] != kIgnoreIndex) {
      total.loss += (largest - target) + std::log(sum);
      ++total.counted;
    }
  }
  return total;
}

template <class T>
void cross_entropy_backward(const CrossEntropyBackward<T>& args, const KernelContext& context) {
  const std::int64_t real = real_cols(args.shape, args.shard);
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    backward_rows(args, real, first, last);
  });
}

std::int64_t count_targets(const std::int32_t* targets, std::int64_t rows) {
  return rows - std::count(targets, targets + rows, kIgnoreIndex);
}

template <class T>
double squared_error(const T* y, const T* t, std::int64_t count, double scale) {
  return scale * squares(y, t, count);
}

template <class T>
void squared_error_backward(const T* y, const T* t, T* dy, std::int64_t count, double scale) {
  differences(y, t, dy, count, static_cast<T>(2.0 * scale));
}

#define PARPLAN_INSTANTIATE(T)                                                                \
  template void cross_entropy_stats(const CrossEntropyStats<T>&, const KernelContext&);       \
  template LossSum cross_entropy_combine(const CrossEntropyCombine<T>&);                      \
  template void cross_entropy_backward(const CrossEntropyBackward<T>&, const KernelContext&); \
  template double squared_error(const T*, const T*, std::int64_t, double);                    \
  template void squared_error_backward(const T*, const T*, T*, std::int64_t, double);
PARPLAN_INSTANTIATE(float)
PARPLAN_INSTANTIATE(double)
#undef PARPLAN_INSTANTIATE

}  // namespace parplan::hw
