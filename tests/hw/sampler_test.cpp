#include "hw/executor/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using parplan::hw::KeyedPermutation;
using parplan::hw::Sampler;

namespace {

Workload workload(std::int64_t batch, bool shuffle, Remainder remainder) {
  Workload w;
  w.global_batch = batch;
  w.data.shuffle = shuffle;
  w.data.remainder = remainder;
  w.seed = 7;
  return w;
}

std::vector<std::int64_t> epoch_of(const Sampler& sampler, std::int64_t epoch, std::int64_t batch) {
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> part(static_cast<std::size_t>(batch));
  for (std::int64_t t = 0; t < sampler.steps_per_epoch(); ++t) {
    sampler.indexes(epoch * sampler.steps_per_epoch() + t, 0, part);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<std::int64_t> count_each(const std::vector<std::int64_t>& indexes,
                                     std::size_t samples) {
  std::vector<std::int64_t> counts(samples);
  for (const std::int64_t i : indexes) ++counts.at(static_cast<std::size_t>(i));
  return counts;
}

}  // namespace

TEST_CASE("a keyed permutation is one, for every size", "[hw]") {
  for (const std::int64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000}) {
    for (const std::uint64_t key : {0ULL, 1ULL, 0x9E3779B97F4A7C15ULL}) {
      const KeyedPermutation permutation(key, size);
      std::vector<std::int64_t> items;
      for (std::int64_t i = 0; i < size; ++i) items.push_back(permutation(i));
      std::sort(items.begin(), items.end());
      std::vector<std::int64_t> expected(static_cast<std::size_t>(size));
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(items == expected);
    }
  }
}

TEST_CASE("a keyed permutation spreads items over places", "[hw]") {
  // 100 items, 4000 keys: item 0 should be at each place 40 times; the sum of squared deviations
  // over the expectation is chi-squared with 99 degrees of freedom, below 148.2 with 99.9 %.
  std::vector<double> hits(100);
  for (std::uint64_t key = 0; key < 4000; ++key) {
    const KeyedPermutation permutation(key * 0x9E3779B97F4A7C15ULL, 100);
    for (std::int64_t place = 0; place < 100; ++place) {
      if (permutation(place) == 0) ++hits[static_cast<std::size_t>(place)];
    }
  }
  double chi_squared = 0.0;
  for (const double h : hits) chi_squared += (h - 40.0) * (h - 40.0) / 40.0;
  CHECK(chi_squared < 148.2);
}

TEST_CASE("every sample is used once per epoch when batches fit", "[hw]") {
  const Sampler sampler(workload(4, true, Remainder::kPad), 20);
  CHECK(sampler.steps_per_epoch() == 5);
  CHECK(sampler.padded_per_epoch() == 0);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    CHECK(count_each(epoch_of(sampler, epoch, 4), 20) == std::vector<std::int64_t>(20, 1));
  }
  CHECK(epoch_of(sampler, 0, 4) != epoch_of(sampler, 1, 4));
  CHECK(epoch_of(sampler, 0, 4) == epoch_of(Sampler(workload(4, true, Remainder::kPad), 20), 0, 4));
}

TEST_CASE("padding repeats the first samples of the epoch's order", "[hw]") {
  // 10 samples in batches of 4: 3 steps, places 10 and 11 repeat places 0 and 1.
  const Sampler sampler(workload(4, true, Remainder::kPad), 10);
  CHECK(sampler.steps_per_epoch() == 3);
  CHECK(sampler.padded_per_epoch() == 2);
  CHECK(sampler.dropped_per_epoch() == 0);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    const auto order = epoch_of(sampler, epoch, 4);
    CHECK(count_each({order.begin(), order.begin() + 10}, 10) == std::vector<std::int64_t>(10, 1));
    CHECK(order[10] == order[0]);
    CHECK(order[11] == order[1]);
  }
}

TEST_CASE("a data set smaller than a batch is repeated as often as needed", "[hw]") {
  const Sampler sampler(workload(7, false, Remainder::kPad), 3);
  CHECK(epoch_of(sampler, 0, 7) == std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0});
  CHECK(sampler.padded_per_epoch() == 4);
}

TEST_CASE("dropping leaves out the end of the epoch's order", "[hw]") {
  const Sampler sampler(workload(4, true, Remainder::kDrop), 10);
  CHECK(sampler.steps_per_epoch() == 2);
  CHECK(sampler.dropped_per_epoch() == 2);
  CHECK(sampler.padded_per_epoch() == 0);
  const auto counts = count_each(epoch_of(sampler, 0, 4), 10);
  CHECK(std::count(counts.begin(), counts.end(), 1) == 8);
  CHECK(std::count(counts.begin(), counts.end(), 0) == 2);
}

TEST_CASE("without shuffling step t takes the samples from t times the batch", "[hw]") {
  const Sampler sampler(workload(4, false, Remainder::kPad), 20);
  std::vector<std::int64_t> part(2);
  sampler.indexes(3, 2, part);
  CHECK(part == std::vector<std::int64_t>{14, 15});
  sampler.indexes(5 + 3, 2, part);  // the next epoch
  CHECK(part == std::vector<std::int64_t>{14, 15});
}

TEST_CASE("parts of a batch are what the whole batch has there", "[hw]") {
  const Sampler sampler(workload(6, true, Remainder::kPad), 50);
  std::vector<std::int64_t> whole(6);
  std::vector<std::int64_t> part(2);
  for (std::int64_t step = 0; step < 20; ++step) {
    sampler.indexes(step, 0, whole);
    for (std::size_t first = 0; first < 6; first += 2) {
      sampler.indexes(step, static_cast<std::int64_t>(first), part);
      CHECK(part == std::vector<std::int64_t>{whole[first], whole[first + 1]});
    }
  }
}

TEST_CASE("a sampler without a sample or a step is refused with the numbers", "[hw]") {
  CHECK_THROWS_AS(Sampler(workload(4, true, Remainder::kPad), 0), InputError);
  CHECK_THROWS_WITH(Sampler(workload(4, true, Remainder::kDrop), 3),
                    ContainsSubstring("3 samples") && ContainsSubstring("global batch of 4"));
}
