#include "hw/cpu/gemm_blocked.hpp"

#include <algorithm>
#include <vector>

#include "hw/cpu/gemm_micro.hpp"

namespace parplan::hw {
namespace {

// Blocks: a panel of b (kDepth x two vectors) stays in the first-level cache, a block of a
// (kRows x kDepth) in the second, the copy of b (kDepth x kCols) in the last.
constexpr std::int64_t kRows = 96;
constexpr std::int64_t kCols = 1024;
constexpr std::int64_t kDepth = 256;
// About a millisecond of double arithmetic at 50 GFLOP/s.
constexpr std::int64_t kPollMultiplyAdds = 25'000'000;

template <class T>
using MultiplyFunction = void (*)(const Product<T>&);

template <class T>
MultiplyFunction<T> multiply_for(Isa isa) {
  switch (isa) {
    case Isa::kBase:
      return &multiply_base<T>;
    case Isa::kAvx2:
      return &multiply_avx2<T>;
    case Isa::kAvx512:
      return &multiply_avx512<T>;
  }
  return nullptr;
}

/// The work buffers of one thread.
template <class T>
struct Buffers {
  std::vector<T> a;     // [depth, rows]
  std::vector<T> b;     // panels of [depth, width]
  std::vector<T> edge;  // [rows, width]
};

template <class T>
class BlockedGemm {
 public:
  BlockedGemm(const Poll& poll, const Gemm<T>& args, Isa isa, Buffers<T>& buffers)
      : poll_(poll),
        args_(args),
        multiply_(multiply_for<T>(isa)),
        width_(2 * vector_length<T>(isa)),
        buffers_(buffers) {
    buffers_.a.resize(static_cast<std::size_t>(kRows * kDepth));
    buffers_.b.resize(static_cast<std::size_t>(kDepth * (kCols + width_)));
    buffers_.edge.resize(static_cast<std::size_t>(kRows * width_));
  }

  void run() {
    for (std::int64_t col = 0; col < args_.n; col += kCols) {
      const std::int64_t cols = std::min(kCols, args_.n - col);
      for (std::int64_t step = 0; step < args_.k; step += kDepth) {
        const std::int64_t depth = std::min(kDepth, args_.k - step);
        copy_b(step, depth, col, cols);
        for (std::int64_t row = 0; row < args_.m; row += kRows) {
          const std::int64_t rows = std::min(kRows, args_.m - row);
          if (step == 0 && args_.bias != nullptr) {
            fill_rows(row, rows, col, cols);
          }
          multiply_block(row, rows, step, depth, col, cols);
        }
      }
    }
  }

 private:
  /// c = bias, or 0.
  void fill_rows(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
    for (std::int64_t r = row; r < row + rows; ++r) {
      T* line = args_.c + r * args_.c_stride + col;
      if (args_.bias != nullptr) {
        std::copy_n(args_.bias + col, cols, line);
      } else {
        std::fill_n(line, cols, T{0});
      }
    }
  }

  /// Copies b[step.., col..] into panels of width_ columns; the last one is padded with zeros.
  void copy_b(std::int64_t step, std::int64_t depth, std::int64_t col, std::int64_t cols) {
    const GemmOperand<T>& b = args_.b;
    for (std::int64_t first = 0; first < cols; first += width_) {
      T* panel = buffers_.b.data() + first * depth;
      const std::int64_t width = std::min(width_, cols - first);
      if (width < width_) {
        std::fill_n(panel, width_ * depth, T{0});
      }
      const std::int64_t j = col + first;
      if (b.transposed) {
        for (std::int64_t c = 0; c < width; ++c) {
          const T* source = b.data + (j + c) * b.stride + step;
          for (std::int64_t p = 0; p < depth; ++p) {
            panel[p * width_ + c] = source[p];
          }
        }
      } else {
        for (std::int64_t p = 0; p < depth; ++p) {
          std::copy_n(b.data + (step + p) * b.stride + j, width, panel + p * width_);
        }
      }
    }
  }

  /// The block of `a` as the kernel reads it: in place, or its copy if it is transposed (whose
  /// columns lie a row apart: one page, and often one cache set, each).
  void place_a(Product<T>& p, std::int64_t row, std::int64_t step) {
    const GemmOperand<T>& a = args_.a;
    if (!a.transposed) {
      p.a = a.data + row * a.stride + step;
      p.a_row = a.stride;
      p.a_col = 1;
      return;
    }
    for (std::int64_t s = 0; s < p.k; ++s) {
      std::copy_n(a.data + (step + s) * a.stride + row, p.m, buffers_.a.data() + s * p.m);
    }
    p.a = buffers_.a.data();
    p.a_row = 1;
    p.a_col = p.m;
  }

  void multiply_block(std::int64_t row, std::int64_t rows, std::int64_t step, std::int64_t depth,
                      std::int64_t col, std::int64_t cols) {
    Product<T> p;
    p.m = rows;
    p.n = width_;
    p.k = depth;
    p.b_row = width_;
    place_a(p, row, step);
    const bool accumulate = args_.accumulate || args_.bias != nullptr || step > 0;
    for (std::int64_t first = 0; first < cols; first += width_) {
      p.b = buffers_.b.data() + first * depth;
      T* c = args_.c + row * args_.c_stride + col + first;
      const std::int64_t width = std::min(width_, cols - first);
      p.c = width == width_ ? c : buffers_.edge.data();
      p.c_row = width == width_ ? args_.c_stride : width_;
      p.accumulate = width == width_ && accumulate;
      multiply_(p);
      if (width < width_) {
        copy_edge(c, rows, width, accumulate);
      }
      count_work(rows * width_ * depth);
    }
  }

  void copy_edge(T* c, std::int64_t rows, std::int64_t width, bool accumulate) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < width; ++j) {
        const T sum = buffers_.edge[static_cast<std::size_t>(r * width_ + j)];
        T& out = c[r * args_.c_stride + j];
        out = accumulate ? out + sum : sum;
      }
    }
  }

  void count_work(std::int64_t multiply_adds) {
    work_ += multiply_adds;
    if (work_ >= kPollMultiplyAdds) {
      work_ = 0;
      poll_();
    }
  }

  Poll poll_;
  const Gemm<T>& args_;
  MultiplyFunction<T> multiply_;
  std::int64_t width_;
  Buffers<T>& buffers_;
  std::int64_t work_ = 0;
};

}  // namespace

template <class T>
void gemm_blocked(const Poll& poll, const Gemm<T>& args, Isa isa) {
  thread_local Buffers<T> buffers;
  BlockedGemm<T>(poll, args, isa, buffers).run();
}

template void gemm_blocked<float>(const Poll&, const Gemm<float>&, Isa);
template void gemm_blocked<double>(const Poll&, const Gemm<double>&, Isa);

}  // namespace parplan::hw
