#include "hw/cpu/norm.hpp"

#include <algorithm>
#include <cmath>

#include "hw/cpu/vector_math.hpp"

// A row stays in the first-level cache between its passes, so memory is read and written once.
// Loops carry `omp simd` because outputs may be inputs, and because sums over a row may be taken in
// vector lanes only if asked for.

namespace parplan::hw {
namespace {

template <class T>
PARPLAN_VECTOR_CLONES void layer_norm_rows(const LayerNormForward<T>& args, std::int64_t first,
                                           std::int64_t last) {
  const std::int64_t cols = args.shape.cols;
  const T share = T{1} / static_cast<T>(cols);
  const T* gamma = args.gamma;
  const T* beta = args.beta;
  for (std::int64_t r = first; r < last; ++r) {
    const T* x = args.x + r * cols;
    T* y = args.y + r * cols;
    T sum{0};
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < cols; ++c) {
      sum += x[c];
    }
    const T mean = sum * share;
    // From the centred values: the difference of mean square and squared mean would cancel.
    T squares{0};
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < cols; ++c) {
      squares += (x[c] - mean) * (x[c] - mean);
    }
    const T rstd = T{1} / std::sqrt(squares * share + static_cast<T>(args.eps));
    args.mean[r] = mean;
    args.rstd[r] = rstd;
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) {
      y[c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
    }
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void rms_norm_rows(const RmsNormForward<T>& args, std::int64_t first,
                                         std::int64_t last) {
  const std::int64_t cols = args.shape.cols;
  const T share = T{1} / static_cast<T>(cols);
  const T* gamma = args.gamma;
  for (std::int64_t r = first; r < last; ++r) {
    const T* x = args.x + r * cols;
    T* y = args.y + r * cols;
    T squares{0};
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < cols; ++c) {
      squares += x[c] * x[c];
    }
    const T rstd = T{1} / std::sqrt(squares * share + static_cast<T>(args.eps));
    args.rstd[r] = rstd;
#pragma omp simd
    for (std::int64_t c = 0; c < cols; ++c) {
      y[c] = x[c] * rstd * gamma[c];
    }
  }
}

template <bool kAccumulate, class T>
PARPLAN_ALWAYS_INLINE void layer_norm_backward_row(const LayerNormBackward<T>& args,
                                                   std::int64_t r) {
  const std::int64_t cols = args.shape.cols;
  const T share = T{1} / static_cast<T>(cols);
  const T mean = args.mean[r];
  const T rstd = args.rstd[r];
  const T* x = args.x + r * cols;
  const T* dy = args.dy + r * cols;
  const T* gamma = args.gamma;
  T* dx = args.dx + r * cols;
  T* dgamma = args.scratch;
  T* dbeta = args.scratch + cols;
  T sum{0};
  T product{0};
#pragma omp simd reduction(+ : sum, product)
  for (std::int64_t c = 0; c < cols; ++c) {
    const T h = (x[c] - mean) * rstd;
    const T g = dy[c] * gamma[c];
    sum += g;
    product += g * h;
    dgamma[c] += dy[c] * h;
    dbeta[c] += dy[c];
  }
  const T mean_g = sum * share;
  const T mean_gh = product * share;
#pragma omp simd
  for (std::int64_t c = 0; c < cols; ++c) {
    const T h = (x[c] - mean) * rstd;
    const T value = rstd * (dy[c] * gamma[c] - mean_g - h * mean_gh);
    dx[c] = kAccumulate ? dx[c] + value : value;
  }
}

template <bool kAccumulate, class T>
PARPLAN_ALWAYS_INLINE void rms_norm_backward_row(const RmsNormBackward<T>& args, std::int64_t r) {
  const std::int64_t cols = args.shape.cols;
  const T rstd = args.rstd[r];
  const T* x = args.x + r * cols;
  const T* dy = args.dy + r * cols;
  const T* gamma = args.gamma;
  T* dx = args.dx + r * cols;
  T* dgamma = args.scratch;
  T product{0};
#pragma omp simd reduction(+ : product)
  for (std::int64_t c = 0; c < cols; ++c) {
    const T dyh = dy[c] * x[c] * rstd;
    product += dyh * gamma[c];
    dgamma[c] += dyh;
  }
  const T mean_gh = product / static_cast<T>(cols);
#pragma omp simd
  for (std::int64_t c = 0; c < cols; ++c) {
    const T value = rstd * (dy[c] * gamma[c] - x[c] * rstd * mean_gh);
    dx[c] = kAccumulate ? dx[c] + value : value;
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void layer_norm_backward_rows(const LayerNormBackward<T>& args,
                                                    std::int64_t first, std::int64_t last) {
  for (std::int64_t r = first; r < last; ++r) {
    if (args.accumulate) {
      layer_norm_backward_row<true>(args, r);
    } else {
      layer_norm_backward_row<false>(args, r);
    }
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void rms_norm_backward_rows(const RmsNormBackward<T>& args,
                                                  std::int64_t first, std::int64_t last) {
  for (std::int64_t r = first; r < last; ++r) {
    if (args.accumulate) {
      rms_norm_backward_row<true>(args, r);
    } else {
      rms_norm_backward_row<false>(args, r);
    }
  }
}

/// Adds a finished partial sum to its output and clears it for the next block.
template <class T>
void flush_partial(T* partial, T* total, std::int64_t cols) {
  for (std::int64_t c = 0; c < cols; ++c) {
    total[c] += partial[c];
    partial[c] = T{0};
  }
}

/// Walks the rows in blocks of kRowsPerPartial, which poll boundaries inside a block do not shift.
/// `rows(first, last)` adds to the partial sums, `flush()` ends a block.
template <class Rows, class Flush>
void for_each_partial(MatrixShape shape, const KernelContext& context, Rows rows, Flush flush) {
  for (std::int64_t first = 0; first < shape.rows; first += kRowsPerPartial) {
    const MatrixShape part{std::min(kRowsPerPartial, shape.rows - first), shape.cols};
    for_each_row_block(part, context,
                       [&](std::int64_t from, std::int64_t to) { rows(first + from, first + to); });
    flush();
  }
}

}  // namespace

template <class T>
void layer_norm_forward(const LayerNormForward<T>& args, const KernelContext& context) {
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    layer_norm_rows(args, first, last);
  });
}

template <class T>
void layer_norm_backward(const LayerNormBackward<T>& args, const KernelContext& context) {
  const std::int64_t cols = args.shape.cols;
  std::fill_n(args.scratch, 2 * cols, T{0});
  if (!args.accumulate_parameters) {
    std::fill_n(args.dgamma, cols, T{0});
    std::fill_n(args.dbeta, cols, T{0});
  }
  for_each_partial(
      args.shape, context,
      [&](std::int64_t first, std::int64_t last) { layer_norm_backward_rows(args, first, last); },
      [&] {
        flush_partial(args.scratch, args.dgamma, cols);
        flush_partial(args.scratch + cols, args.dbeta, cols);
      });
}

template <class T>
void rms_norm_forward(const RmsNormForward<T>& args, const KernelContext& context) {
  for_each_row_block(args.shape, context, [&](std::int64_t first, std::int64_t last) {
    rms_norm_rows(args, first, last);
  });
}

template <class T>
void rms_norm_backward(const RmsNormBackward<T>& args, const KernelContext& context) {
  const std::int64_t cols = args.shape.cols;
  std::fill_n(args.scratch, cols, T{0});
  if (!args.accumulate_parameters) {
    std::fill_n(args.dgamma, cols, T{0});
  }
  for_each_partial(
      args.shape, context,
      [&](std::int64_t first, std::int64_t last) { rms_norm_backward_rows(args, first, last); },
      [&] { flush_partial(args.scratch, args.dgamma, cols); });
}

#define PARPLAN_INSTANTIATE(T)                                                          \
  template void layer_norm_forward(const LayerNormForward<T>&, const KernelContext&);   \
  template void layer_norm_backward(const LayerNormBackward<T>&, const KernelContext&); \
  template void rms_norm_forward(const RmsNormForward<T>&, const KernelContext&);       \
  template void rms_norm_backward(const RmsNormBackward<T>&, const KernelContext&);
PARPLAN_INSTANTIATE(float)
PARPLAN_INSTANTIATE(double)
#undef PARPLAN_INSTANTIATE

}  // namespace parplan::hw
