#include "hw/cpu/loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

using namespace parplan::hw;
using namespace parplan::hw::test;

namespace {

/// Logits of `rows` positions over `vocab` classes, cut into shards of `cols` columns; what lies
/// beyond the vocabulary is rubbish that must have no effect.
template <class T>
struct Sharded {
  Sharded(const std::vector<T>& whole, std::vector<std::int32_t> t, std::int64_t v, std::int64_t c)
      : vocab(v), rows(static_cast<std::int64_t>(t.size())), cols(c), targets(std::move(t)) {
    for (std::int64_t s = 0; s * cols < vocab + kExtra; ++s) {
      std::vector<T> part;
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t i = s * cols; i < (s + 1) * cols; ++i) {
          part.push_back(i < vocab ? whole[static_cast<std::size_t>(r * vocab + i)]
                                   : (i % 2 != 0 ? T(1e30) : std::numeric_limits<T>::quiet_NaN()));
        }
      }
      shards.push_back(part);
    }
  }

  LossSum loss() {
    std::vector<T> stats(shards.size() * static_cast<std::size_t>(rows) * 3);
    for (std::size_t s = 0; s < shards.size(); ++s) {
      cross_entropy_stats<T>({shards[s].data(),
                              targets.data(),
                              stats.data() + s * static_cast<std::size_t>(rows) * 3,
                              {rows, cols},
                              shard(s)});
    }
    lse.assign(static_cast<std::size_t>(rows), T{0});
    return cross_entropy_combine<T>(
        {stats.data(), targets.data(), lse.data(), rows, static_cast<std::int64_t>(shards.size())});
  }

  void backward(double scale) {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      cross_entropy_backward<T>(
          {shards[s].data(), targets.data(), lse.data(), {rows, cols}, shard(s), scale});
    }
  }

  /// The shards put together again; checks that padding is zero.
  std::vector<T> whole() const {
    std::vector<T> all;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < cols * static_cast<std::int64_t>(shards.size()); ++i) {
        const T value = shards[static_cast<std::size_t>(i / cols)]
                              [static_cast<std::size_t>(r * cols + i % cols)];
        if (i < vocab) {
          all.push_back(value);
        } else {
          CHECK(value == T{0});
        }
      }
    }
    return all;
  }

  ClassShard shard(std::size_t s) const { return {vocab, static_cast<std::int64_t>(s) * cols}; }

  static constexpr std::int64_t kExtra = 3;  // so that some layouts have a shard of padding only
  std::int64_t vocab, rows, cols;
  std::vector<std::int32_t> targets;
  std::vector<std::vector<T>> shards;
  std::vector<T> lse;
};

/// Sum of -log softmax(x)[target], in double.
double naive_loss(const std::vector<double>& x, const std::vector<std::int32_t>& targets,
                  std::int64_t vocab) {
  double loss = 0;
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == kIgnoreIndex) {
      continue;
    }
    const double* row = x.data() + r * static_cast<std::size_t>(vocab);
    const double largest = *std::max_element(row, row + vocab);
    double sum = 0;
    for (std::int64_t c = 0; c < vocab; ++c) {
      sum += std::exp(row[c] - largest);
    }
    loss += largest + std::log(sum) - row[targets[r]];
  }
  return loss;
}

const std::vector<std::int32_t> kTargets{0, 12, kIgnoreIndex, 5, 7, 3};
constexpr std::int64_t kVocab = 13;

}  // namespace

TEMPLATE_TEST_CASE("cross-entropy over any shards is the naive one, gradients its slopes", "[hw]",
                   float, double) {
  using T = TestType;
  // One shard with padding; exact; two; shards of 5 with one of padding only; shards narrower than
  // the padding.
  const std::int64_t cols = GENERATE(16, 13, 8, 5, 1);
  const double sd = GENERATE(1.0, 20.0);
  auto x = cast<double>(draws<T>(static_cast<std::int64_t>(kTargets.size()) * kVocab, "x", sd));
  Sharded<T> logits(cast<T>(x), kTargets, kVocab, cols);
  const LossSum loss = logits.loss();
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  CHECK(loss.counted == 5);
  CHECK(count_targets(kTargets.data(), 6) == 5);
  CHECK(loss.loss == Approx(naive_loss(x, kTargets, kVocab)).epsilon(8 * eps));

  const double scale = 0.2;
  const auto gradient = gradient_of([&] { return scale * naive_loss(x, kTargets, kVocab); }, x);
  logits.backward(scale);
  // Rounding of lse, near 3 sd, passes into e^(x - lse); finite differences are good to 1e-9.
  const double unit = std::max(1e-8, 8 * eps * std::max(1.0, 3 * sd));
  CHECK(worst_error(logits.whole(), gradient) * eps < unit);
}

TEST_CASE("cross-entropy survives extreme logits", "[hw]") {
  const std::vector<float> x{1e4F, -1e4F, 0.0F, -1e4F, -1e4F, -1e4F};
  const std::int64_t cols = GENERATE(1, 2, 3);
  Sharded<float> logits(x, {1, 2}, 3, cols);
  const LossSum loss = logits.loss();
  CHECK(loss.loss == Approx(2e4 + std::log(3.0)).epsilon(1e-7));
  logits.backward(1.0);
  const auto gradient = logits.whole();
  CHECK(gradient[0] == 1.0F);
  CHECK(gradient[1] == -1.0F);
  CHECK(gradient[2] == 0.0F);
  CHECK(gradient[3] == Approx(1.0 / 3).epsilon(1e-3));  // lse near -1e4 is a multiple of 2^-10
}

TEST_CASE("not-a-number in a class reaches the loss", "[hw]") {
  std::vector<double> x(6 * kVocab, 0.0);
  x[3] = std::nan("");
  Sharded<double> logits(x, kTargets, kVocab, 5);
  CHECK(std::isnan(logits.loss().loss));
}

TEST_CASE("cross-entropy of many columns matches the naive one and polls", "[hw]") {
  const std::int64_t vocab = 10000, rows = 40;
  const auto x = draws<float>(rows * vocab, "x", 3.0);
  std::vector<std::int32_t> targets;
  for (std::int32_t r = 0; r < rows; ++r) {
    targets.push_back(r * 250);
  }
  int polls = 0;
  const KernelContext context{{[](void* state) noexcept { ++*static_cast<int*>(state); }, &polls}};
  std::vector<float> stats(40 * 3), lse(40);
  cross_entropy_stats<float>({x.data(), targets.data(), stats.data(), {rows, vocab}, {vocab, 0}},
                             context);
  CHECK(polls >= rows * vocab / kBlockElements);
  const LossSum loss =
      cross_entropy_combine<float>({stats.data(), targets.data(), lse.data(), rows, 1});
  CHECK(loss.loss == Approx(naive_loss(cast<double>(x), targets, vocab)).epsilon(1e-6));
  auto dx = x;
  cross_entropy_backward<float>(
      {dx.data(), targets.data(), lse.data(), {rows, vocab}, {vocab, 0}, 1.0});
  // Each row of softmax minus one-hot sums to zero.
  for (std::size_t r = 0; r < 40; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < 10000; ++c) {
      sum += dx[r * 10000 + c];
    }
    CHECK(std::abs(sum) < 1e-5);
  }
}

TEST_CASE("a target outside the classes is named with its row", "[hw]") {
  const std::int32_t bad = GENERATE(-1, 13, -99);
  Sharded<float> logits(draws<float>(2 * kVocab, "x"), {4, bad}, kVocab, 8);
  CHECK_THROWS_WITH(logits.loss(), "target " + std::to_string(bad) +
                                       " at row 1 of the batch is neither a class in [0, 13) nor "
                                       "the ignored value -100");
  CHECK_THROWS_AS(logits.loss(), parplan::InputError);
}

TEMPLATE_TEST_CASE("the squared error and its gradient", "[hw]", float, double) {
  // (1 - 0)^2 + (2 - 4)^2 + (-3 + 1)^2 = 9, times 1/3.
  const std::vector<TestType> y{1, 2, -3}, t{0, 4, -1};
  CHECK(squared_error(y.data(), t.data(), 3, 1.0 / 3) == Approx(3.0).epsilon(1e-15));
  std::vector<TestType> dy = y;
  squared_error_backward(dy.data(), t.data(), dy.data(), 3, 0.5);
  CHECK(dy == std::vector<TestType>{1, -2, -2});
  const auto a = draws<TestType>(1001, "a"), b = draws<TestType>(1001, "b");
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  }
  CHECK(squared_error(a.data(), b.data(), 1001, 1.0) == Approx(sum).epsilon(1e-13));
}
