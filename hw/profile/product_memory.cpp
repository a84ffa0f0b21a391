#include "hw/profile/product_memory.hpp"

#include <algorithm>
#include <vector>

#include "hw/cpu/gemm.hpp"
#include "hw/executor/process_memory.hpp"

namespace parplan::hw {
namespace {

constexpr std::int64_t kShapes = 12;
// Sizes of no model, apart enough to be different code.
constexpr std::int64_t kFirst = 83;
constexpr std::int64_t kApart = 22;
constexpr std::int64_t kLargest = kFirst + (kShapes - 1) * kApart;

}  // namespace

Bytes measure_product_bytes() {
  const std::vector<float> a(static_cast<std::size_t>(kLargest * kLargest), 1.0F);
  const std::vector<float> b = a;
  std::vector<float> c = a;
  const auto run = [&](std::int64_t size, bool a_transposed, bool b_transposed, bool accumulate) {
    Gemm<float> product;
    product.m = product.n = product.k = size;
    product.a = {a.data(), size, a_transposed};
    product.b = {b.data(), size, b_transposed};
    product.c = c.data();
    product.c_stride = size;
    product.accumulate = accumulate;
    gemm(KernelContext{}, product);
  };
  // The largest first: what all share, such as scratch memory, is there when the others are
  // counted.
  const auto run_layouts = [&](std::int64_t size) {
    run(size, false, true, false);
    run(size, false, false, false);
    run(size, true, false, true);
  };
  run_layouts(kLargest);
  const Bytes before = resident_process_bytes();
  for (std::int64_t i = 0; i < kShapes - 1; ++i) run_layouts(kFirst + i * kApart);
  const Bytes grown = resident_process_bytes() - before;
  return Bytes{std::max<std::int64_t>(0, grown.value) / (3 * (kShapes - 1))};
}

}  // namespace parplan::hw
