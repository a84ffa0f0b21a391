#include "sim/pipeline_order.hpp"

#include <random>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::sim;

namespace {

std::vector<StepKind> unfold(const std::vector<OrderPiece>& pieces) {
  std::vector<StepKind> kinds;
  for (const OrderPiece& piece : pieces) {
    for (std::int64_t i = 0; i < piece.repeat; ++i) {
      kinds.insert(kinds.end(), piece.steps.begin(), piece.steps.end());
    }
  }
  return kinds;
}

std::vector<StepKind> kinds_of(const std::vector<ScheduleStep>& order) {
  std::vector<StepKind> kinds;
  for (const ScheduleStep& step : order) kinds.push_back(step.kind);
  return kinds;
}

}  // namespace

TEST_CASE("folded orders unfold to the table", "[sim]") {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = 1; m <= 20; ++m) {
        const auto table = schedule_table(schedule, p, m);
        const auto direct = pipeline_order(schedule, p, m), folded = fold_order(table);
        for (std::size_t stage = 0; stage < table.size(); ++stage) {
          CHECK(unfold(direct[stage]) == kinds_of(table[stage]));
          CHECK(unfold(folded[stage]) == kinds_of(table[stage]));
        }
      }
    }
  }
}

TEST_CASE("a long regular order folds into a few pieces, an irregular one into few lists",
          "[sim]") {
  const auto folded = fold_order(schedule_table(PipelineSchedule::kOneForwardOneBackward, 3, 1000));
  using K = StepKind;
  CHECK(folded[2] == std::vector<OrderPiece>{{{K::kForward, K::kBackward}, 1000}});
  // F F (F B)^998 B B, where the two first forwards fold with the third.
  CHECK(folded[0].size() <= 4);
  // F B alternately, then one odd pair: F0 B0 F1 B1 F2 F3 B2 B3.
  const ScheduleTable odd{{{K::kForward, 0},
                           {K::kBackward, 0},
                           {K::kForward, 1},
                           {K::kBackward, 1},
                           {K::kForward, 2},
                           {K::kForward, 3},
                           {K::kBackward, 2},
                           {K::kBackward, 3}}};
  CHECK(unfold(fold_order(odd)[0]) == kinds_of(odd[0]));
  CHECK_THROWS_AS(fold_order({}), InputError);
}
