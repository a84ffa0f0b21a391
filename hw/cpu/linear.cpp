#include "hw/cpu/linear.hpp"

#include <algorithm>
#include <array>

#include "hw/cpu/gemm.hpp"
#include "hw/cpu/gemm_micro.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

// Column sums: rows added up in registers, rows added up in a partial sum, columns of the latter.
constexpr std::int64_t kSumRows = 16;
constexpr std::int64_t kPartialRows = 256;
constexpr std::int64_t kPartialCols = 512;
// About half a millisecond at 8 GB/s.
constexpr std::int64_t kPollBytes = 4'000'000;

/// A part of a matrix, its rows `stride` apart.
template <class T>
struct Part {
  const T* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;
};

/// Adds the rows of `x` to sums[cols].
template <class T, Isa kIsa>
inline __attribute__((always_inline)) void add_rows(const Part<T>& x, T* sums) {
  using L = Lanes<T, kIsa>;
  using V = typename L::Type;
  std::int64_t j = 0;
  for (; j + L::kLength <= x.cols; j += L::kLength) {
    V sum{};
    for (std::int64_t r = 0; r < x.rows; ++r) {
      sum += *reinterpret_cast<const V*>(x.data + r * x.stride + j);
    }
    *reinterpret_cast<V*>(sums + j) += sum;
  }
  for (; j < x.cols; ++j) {
    T sum{};
    for (std::int64_t r = 0; r < x.rows; ++r) {
      sum += x.data[r * x.stride + j];
    }
    sums[j] += sum;
  }
}

template <class T>
void add_rows_base(const Part<T>& x, T* sums) {
  add_rows<T, Isa::kBase>(x, sums);
}
template <class T>
PARPLAN_TARGET_AVX2 void add_rows_avx2(const Part<T>& x, T* sums) {
  add_rows<T, Isa::kAvx2>(x, sums);
}
template <class T>
PARPLAN_TARGET_AVX512 void add_rows_avx512(const Part<T>& x, T* sums) {
  add_rows<T, Isa::kAvx512>(x, sums);
}

template <class T>
auto add_rows_for(Isa isa) {
  switch (isa) {
    case Isa::kBase:
      return &add_rows_base<T>;
    case Isa::kAvx2:
      return &add_rows_avx2<T>;
    case Isa::kAvx512:
      return &add_rows_avx512<T>;
  }
  throw InternalError("internal error: unknown instruction set");
}

}  // namespace

template <class T>
void linear_forward(const KernelContext& context, const LinearForward<T>& args) {
  const auto [rows, in, out] = args.shape;
  gemm(context, Gemm<T>{rows, out, in, {args.x, in}, {args.w, in, true}, args.y, out, args.bias});
}

template <class T>
void linear_backward_input(const KernelContext& context, const LinearBackwardInput<T>& args) {
  const auto [rows, in, out] = args.shape;
  gemm(context,
       Gemm<T>{rows, in, out, {args.dy, out}, {args.w, in}, args.dx, in, nullptr, args.accumulate});
}

template <class T>
void linear_backward_weight(const KernelContext& context, const LinearBackwardWeight<T>& args) {
  const auto [rows, in, out] = args.shape;
  gemm(context, Gemm<T>{out,
                        in,
                        rows,
                        {args.dy, out, true},
                        {args.x, in},
                        args.dw,
                        in,
                        nullptr,
                        args.accumulate});
  if (args.db != nullptr) {
    column_sums(context, ColumnSums<T>{rows, out, args.dy, args.db, args.accumulate});
  }
}

template <class T>
void column_sums(const KernelContext& context, const ColumnSums<T>& args) {
  ensure(args.rows >= 0 && args.cols >= 0, "sizes of a matrix are not negative");
  if (!args.accumulate) {
    std::fill_n(args.sums, args.cols, T{0});
  }
  const auto add = add_rows_for<T>(host_isa());
  std::int64_t bytes = 0;
  for (std::int64_t row = 0; row < args.rows; row += kPartialRows) {
    const std::int64_t last = std::min(row + kPartialRows, args.rows);
    for (std::int64_t col = 0; col < args.cols; col += kPartialCols) {
      const std::int64_t cols = std::min(kPartialCols, args.cols - col);
      std::array<T, kPartialCols> partial;
      std::fill_n(partial.data(), cols, T{0});
      for (std::int64_t r = row; r < last; r += kSumRows) {
        add({args.x + r * args.cols + col, std::min(kSumRows, last - r), cols, args.cols},
            partial.data());
      }
      add({partial.data(), 1, cols, cols}, args.sums + col);
      bytes += (last - row) * cols * static_cast<std::int64_t>(sizeof(T));
      if (bytes >= kPollBytes) {
        bytes = 0;
        context.poll();
      }
    }
  }
}

template void linear_forward<float>(const KernelContext&, const LinearForward<float>&);
template void linear_forward<double>(const KernelContext&, const LinearForward<double>&);
template void linear_backward_input<float>(const KernelContext&, const LinearBackwardInput<float>&);
template void linear_backward_input<double>(const KernelContext&,
                                            const LinearBackwardInput<double>&);
template void linear_backward_weight<float>(const KernelContext&,
                                            const LinearBackwardWeight<float>&);
template void linear_backward_weight<double>(const KernelContext&,
                                             const LinearBackwardWeight<double>&);
template void column_sums<float>(const KernelContext&, const ColumnSums<float>&);
template void column_sums<double>(const KernelContext&, const ColumnSums<double>&);

}  // namespace parplan::hw
