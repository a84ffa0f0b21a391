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

struct BlockSize {
  std::int64_t m, n, k;
};

/// Blocks of about kPollFlop. Nearly cubes, which move the fewest bytes per operation; flat in k
/// where `a` is transposed, whose columns are a row apart, so that few columns would touch a page
/// each for little work. Measured best of six forms over the transformer's shapes (kernels_bench).
BlockSize poll_block(const Gemm<float>& args) {
  const std::int64_t most_k = args.a.transposed ? 128 : 512;
  const std::int64_t k = even_part(args.k, most_k);
  const std::int64_t n = even_part(args.n, 1024);
  const auto rows =
      static_cast<std::int64_t>(kPollFlop / flop(1, std::min(n, args.n), std::min(k, args.k)));
  return {even_part(args.m, std::max<std::int64_t>(16, rows / 16 * 16)), n, k};
}

void multiply(const KernelContext& context, const Gemm<float>& args) {
  apply_thread_count();
  const int thread_count = threads();
  if (context.poll.call == nullptr || flop(args.m, args.n, args.k) <= kPollFlop) {
    gemm_onednn(args, thread_count);
    return;
  }
  const BlockSize size = poll_block(args);
  bool first = true;
  for (std::int64_t col = 0; col < args.n; col += size.n) {
    for (std::int64_t row = 0; row < args.m; row += size.m) {
      for (std::int64_t step = 0; step < args.k; step += size.k) {
        if (!first) {
          context.poll();
        }
        first = false;
        Gemm<float> block = block_of(args, row, col, step);
        block.m = std::min(size.m, args.m - row);
        block.n = std::min(size.n, args.n - col);
        block.k = std::min(size.k, args.k - step);
        gemm_onednn(block, thread_count);
      }
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
