#include "hw/cpu/gemm.hpp"

#include <algorithm>
#include <cmath>

#include "hw/cpu/gemm_blocked.hpp"
#include "hw/cpu/gemm_isa.hpp"
#include "hw/cpu/gemm_onednn.hpp"
#include "hw/cpu/threads.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

// Double products below this run on one thread: a second one would cost more than it saves.
constexpr double kParallelFlop = 4e6;

double flop(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

/// `size` in as many equal parts (multiples of 16, but for the last) as parts of at most `most`
/// need.
std::int64_t even_part(std::int64_t size, std::int64_t most) {
  const std::int64_t parts = (size + most - 1) / most;
  return ((size + parts - 1) / parts + 15) / 16 * 16;
}

/// The part of `args` with rows from `row`, columns from `col` and terms from `step` on. Terms
/// after the first are added to the result of those before.
template <class T>
Gemm<T> block_of(const Gemm<T>& args, std::int64_t row, std::int64_t col, std::int64_t step) {
  Gemm<T> block = args;
  block.a.data += args.a.transposed ? step * args.a.stride + row : row * args.a.stride + step;
  block.b.data += args.b.transposed ? col * args.b.stride + step : step * args.b.stride + col;
  block.c += row * args.c_stride + col;
  if (args.bias != nullptr) {
    block.bias = step == 0 ? args.bias + col : nullptr;
  }
  block.accumulate = args.accumulate || step > 0;
  return block;
}

struct Cut {
  std::int64_t lines;    ///< rows of c, or terms where `a` is transposed
  std::int64_t columns;  ///< of c
};

/// The blocks between two polls. Cut into lines, operands stay contiguous, which keeps oneDNN on
/// its fastest code, and out of the code that allocates memory of its own for copies. With fewer
/// than kGoodLines a block would copy b, or add to c, too often for its work (own measurement over
/// the transformer's shapes: 128 lines cost up to 13 %, 192 up to 6 %, against gains of up to 26 %
/// over blocks cut in all dimensions). Only where polls would be more than kMostFlop apart there
/// are fewer lines, down to kLeastLines, and then fewer columns.
Cut poll_cut(const Gemm<float>& args) {
  constexpr double kGoodLines = 192;
  constexpr double kLeastLines = 96;
  constexpr double kMostFlop = 10 * kPollFlop;
  const std::int64_t lines = args.a.transposed ? args.k : args.m;
  const double whole_flop = flop(args.m, args.n, args.k);
  const auto line_count = static_cast<double>(lines);
  const double line_flop = whole_flop / line_count;
  double parts =
      std::max(1.0, std::round(line_count / std::max(kGoodLines, kPollFlop / line_flop)));
  const double needed = std::ceil(whole_flop / kMostFlop);
  if (needed > parts && line_count / needed >= kLeastLines) parts = needed;
  const std::int64_t part =
      even_part(lines, static_cast<std::int64_t>(std::ceil(line_count / parts)));
  const double column_flop =
      line_flop * static_cast<double>(std::min(part, lines)) / static_cast<double>(args.n);
  const auto most_columns =
      std::max<std::int64_t>(16, static_cast<std::int64_t>(kMostFlop / column_flop));
  return {part, most_columns >= args.n ? args.n : even_part(args.n, most_columns)};
}

void multiply(const KernelContext& context, const Gemm<float>& args) {
  apply_thread_count();
  const int thread_count = threads();
  if (context.poll.call == nullptr || flop(args.m, args.n, args.k) <= kPollFlop) {
    gemm_onednn(args, thread_count);
    return;
  }
  const bool by_terms = args.a.transposed;
  const std::int64_t lines = by_terms ? args.k : args.m;
  const Cut cut = poll_cut(args);
  for (std::int64_t column = 0; column < args.n; column += cut.columns) {
    for (std::int64_t line = 0; line < lines; line += cut.lines) {
      if (column + line > 0) {
        context.poll();
      }
      Gemm<float> block = block_of(args, by_terms ? 0 : line, column, by_terms ? line : 0);
      (by_terms ? block.k : block.m) = std::min(cut.lines, lines - line);
      block.n = std::min(cut.columns, args.n - column);
      gemm_onednn(block, thread_count);
    }
  }
}

void multiply(const KernelContext& context, const Gemm<double>& args) {
  const Isa isa = host_isa();
  const int thread_count = flop(args.m, args.n, args.k) < kParallelFlop ? 1 : threads();
  if (thread_count == 1) {
    gemm_blocked(context.poll, args, isa);
    return;
  }
  const bool by_rows = args.m >= args.n;
  const std::int64_t size = by_rows ? args.m : args.n;
  const std::int64_t part = even_part(size, (size + thread_count - 1) / thread_count);
  auto body = [&](std::int64_t i, int thread) {
    Gemm<double> block = block_of(args, by_rows ? i * part : 0, by_rows ? 0 : i * part, 0);
    (by_rows ? block.m : block.n) = std::min(part, size - i * part);
    gemm_blocked(thread == 0 ? context.poll : Poll{}, block, isa);
  };
  parallel_for((size + part - 1) / part, thread_count, body);
}

/// Without terms: the bias, zero, or c as it is.
template <class T>
void fill(const Gemm<T>& args) {
  if (args.accumulate) {
    return;
  }
  for (std::int64_t row = 0; row < args.m; ++row) {
    T* line = args.c + row * args.c_stride;
    if (args.bias != nullptr) {
      std::copy_n(args.bias, args.n, line);
    } else {
      std::fill_n(line, args.n, T{0});
    }
  }
}

}  // namespace

template <class T>
void gemm(const KernelContext& context, const Gemm<T>& args) {
  ensure(args.m >= 0 && args.n >= 0 && args.k >= 0, "sizes of a matrix product are not negative");
  ensure(args.bias == nullptr || !args.accumulate, "a matrix product adds a bias or accumulates");
  ensure(args.a.stride >= (args.a.transposed ? args.m : args.k) &&
             args.b.stride >= (args.b.transposed ? args.k : args.n) && args.c_stride >= args.n,
         "rows of a matrix product's operands do not overlap");
  if (args.m == 0 || args.n == 0) {
    return;
  }
  if (args.k == 0) {
    fill(args);
    return;
  }
  multiply(context, args);
}

template void gemm<float>(const KernelContext&, const Gemm<float>&);
template void gemm<double>(const KernelContext&, const Gemm<double>&);

}  // namespace parplan::hw
