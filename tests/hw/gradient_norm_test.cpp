#include "hw/cpu/gradient_norm.hpp"

#include <cmath>
#include <vector>

#include "hw/cpu/blocks.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

using namespace parplan;
using namespace parplan::hw;
using namespace parplan::hw::test;

TEMPLATE_TEST_CASE("the squared norm is the sum of squares of its ranges, by their shares", "[hw]",
                   float, double) {
  const std::int64_t count = 2 * kBlockElements + 4711;
  const std::vector<TestType> g = draws<TestType>(count, "g");
  const auto expected = [&g](const std::vector<NormRange>& ranges) {
    long double sum = 0.0L;
    for (const NormRange& range : ranges) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const auto value = static_cast<long double>(g[static_cast<std::size_t>(i)]);
        sum += static_cast<long double>(range.share) * value * value;
      }
    }
    return static_cast<double>(sum);
  };
  for (const std::vector<NormRange>& ranges : std::vector<std::vector<NormRange>>{
           {{0, count}},
           {{0, 1}},
           {{5, 22, 0.5}},
           {{0, 17}, {17, 40000, 0.25}, {50000, count, 1.0 / 3.0}},
       }) {
    CHECK(squared_norm<TestType>(g.data(), ranges) == Approx(expected(ranges)).epsilon(1e-14));
  }
  CHECK(squared_norm<TestType>(g.data(), std::vector<NormRange>{}) == 0.0);
}

TEST_CASE("squares of large float gradients do not overflow, and what is not finite shows",
          "[hw]") {
  const std::vector<NormRange> all{{0, 3}};
  const std::vector<float> large(3, 2e38F);
  CHECK(squared_norm(large.data(), all) ==
        Approx(3.0 * static_cast<double>(2e38F) * static_cast<double>(2e38F)).epsilon(1e-15));
  const std::vector<float> lost{1.0F, std::nanf(""), 1.0F};
  CHECK(std::isnan(squared_norm(lost.data(), all)));
}

TEST_CASE("the norm polls between blocks", "[hw]") {
  const std::vector<float> g(static_cast<std::size_t>(3 * kBlockElements), 1.0F);
  int polls = 0;
  KernelContext context;
  context.poll = {[](void* count) noexcept { ++*static_cast<int*>(count); }, &polls};
  const std::vector<NormRange> all{{0, 3 * kBlockElements}};
  CHECK(squared_norm(g.data(), all, context) == 3.0 * kBlockElements);
  CHECK(polls == 3);
}
