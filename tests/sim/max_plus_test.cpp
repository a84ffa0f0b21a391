#include "sim/max_plus.hpp"

#include <random>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

constexpr auto kNoOperand = MaxPlusRun::kNoOperand;

std::vector<std::int64_t> by_hand(const MaxPlusBody& body, std::int64_t times,
                                  std::vector<std::int64_t> state,
                                  const std::vector<std::int64_t>& durations) {
  for (; times > 0; --times) {
    for (const MaxPlusRun& run : body.runs()) {
      for (std::uint32_t k = 0; k < run.count; ++k) {
        std::int64_t most = std::max(state[run.a + k], state[run.b + k]);
        if (run.c != kNoOperand) most = std::max(most, state[run.c + k]);
        state[run.out + k] = most + durations[run.duration + k];
      }
    }
  }
  return state;
}

/// A random body of single tasks on `size` slots.
MaxPlusBody random_body(std::mt19937& random, std::uint32_t size) {
  std::vector<MaxPlusRun> runs;
  const auto slot_beside = [&](std::uint32_t out) {
    const auto slot = static_cast<std::uint32_t>(random() % (size - 1));
    return slot < out ? slot : slot + 1;
  };
  const std::size_t count = 1 + random() % (2 * size);
  for (std::uint32_t i = 0; i < count; ++i) {
    MaxPlusRun run;
    run.out = static_cast<std::uint32_t>(random() % size);
    run.a = random() % 2 == 0 ? run.out : slot_beside(run.out);
    run.b = slot_beside(run.out);
    run.c = random() % 2 == 0 ? kNoOperand : slot_beside(run.out);
    run.duration = i;
    run.count = 1;
    runs.push_back(run);
  }
  return {std::move(runs), size};
}

}  // namespace

TEST_CASE("a run does many like tasks, vector lengths and remainders alike", "[sim]") {
  std::mt19937 random(1);
  for (std::uint32_t count = 1; count <= 40; ++count) {
    for (const std::uint32_t c : {kNoOperand, 2 * count}) {
      const MaxPlusBody body({{0, 0, count, c, 1, count}, {3 * count, 0, count, c, 0, count}},
                             4 * count);
      std::vector<std::int64_t> state(4 * count), durations(count + 1);
      for (auto& value : state) value = static_cast<std::int64_t>(random());
      for (auto& value : durations) value = static_cast<std::int64_t>(random()) << 20;
      const auto expected = by_hand(body, 1, state, durations);
      body.apply(state, durations);
      CHECK(state == expected);
    }
  }
}

TEST_CASE("two coupled clocks settle into their slower cycle", "[sim]") {
  // x <- max(x, y) + 3, y <- max(x, y) + 5: from (0, 0) both grow by 8 each time. The first
  // repetition and one more show it; a billion cost no more.
  const MaxPlusBody body({{0, 0, 1, kNoOperand, 0, 1}, {1, 1, 0, kNoOperand, 1, 1}}, 2);
  std::vector<std::int64_t> state{0, 0};
  MaxPlusScratch scratch;
  body.repeat(1'000'000'000, state, std::vector<std::int64_t>{3, 5}, scratch);
  CHECK(state == std::vector<std::int64_t>{7'999'999'995, 8'000'000'000});
  CHECK(scratch.applications <= 4);
}

TEST_CASE("a race that is decided late is jumped over exactly", "[sim]") {
  // a grows by 1000 from 0, b by 999 from a lead of 10^9, c follows the later of both: b leads for
  // 10^9 repetitions, then a does.
  const MaxPlusBody body(
      {{0, 0, 3, kNoOperand, 0, 1}, {1, 1, 3, kNoOperand, 1, 1}, {2, 0, 1, kNoOperand, 2, 1}}, 4);
  const std::vector<std::int64_t> durations{1000, 999, 7};
  for (const std::int64_t times :
       {999'999'999LL, 1'000'000'000LL, 1'000'000'001LL, 3'000'000'000LL}) {
    std::vector<std::int64_t> state{0, 1'000'000'000, 0, 0};
    MaxPlusScratch scratch;
    body.repeat(times, state, durations, scratch);
    const std::int64_t a = 1000 * times, b = 1'000'000'000 + 999 * times;
    CHECK(state == std::vector<std::int64_t>{a, b, std::max(a, b) + 7, 0});
    CHECK(scratch.applications < 100);
  }
}

TEST_CASE("a constant that is not zero holds until it is overtaken", "[sim]") {
  // x <- max(x, k) + 1 with k = 5: 6, 7, ...; y <- max(y, x) with x ahead.
  const MaxPlusBody body({{0, 0, 2, kNoOperand, 0, 1}, {1, 1, 0, kNoOperand, 1, 1}}, 3);
  std::vector<std::int64_t> state{0, 1000, 5};
  MaxPlusScratch scratch;
  body.repeat(5000, state, std::vector<std::int64_t>{1, 0}, scratch);
  CHECK(state == std::vector<std::int64_t>{5005, 5005, 5});
  CHECK(scratch.applications < 100);
}

TEST_CASE("repeating a random body is applying it again and again", "[sim]") {
  std::mt19937 random(2);
  MaxPlusScratch scratch;  // shared by bodies of all sizes
  for (int round = 0; round < 2000; ++round) {
    const auto size = static_cast<std::uint32_t>(2 + random() % 12);
    const MaxPlusBody body = random_body(random, size);
    // Small and nearly equal durations make ties, long periods and late overtaking.
    const std::int64_t base = random() % 2 == 0 ? 0 : 1000;
    std::vector<std::int64_t> durations(body.runs().size()), state(size);
    for (auto& d : durations) d = base + static_cast<std::int64_t>(random() % 4);
    for (auto& x : state) x = static_cast<std::int64_t>(random() % 500);
    if (random() % 2 == 0) std::fill(state.begin(), state.end(), 0);
    const auto times = static_cast<std::int64_t>(random() % 1500);
    const auto expected = by_hand(body, times, state, durations);
    body.repeat(times, state, durations, scratch);
    REQUIRE(state == expected);
  }
  CHECK(scratch.jumps > 1000);
}

TEST_CASE("runs that overlap themselves or leave the state are refused", "[sim]") {
  const auto make = [](MaxPlusRun run) { return MaxPlusBody({run}, 10); };
  CHECK_THROWS_AS(make({0, 1, 4, kNoOperand, 0, 2}), InternalError);
  CHECK_THROWS_AS(make({0, 0, 1, kNoOperand, 0, 2}), InternalError);
  CHECK_THROWS_AS(make({0, 0, 4, 1, 0, 2}), InternalError);
  CHECK_THROWS_AS(make({0, 0, 9, kNoOperand, 0, 2}), InternalError);
  CHECK_NOTHROW(make({0, 0, 8, 2, 0, 2}));
}
