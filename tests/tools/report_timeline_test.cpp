#include <set>

#include "sim/core/model_presets.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/tools/report_fixture.hpp"
#include "tools/report/timeline.hpp"

using namespace parplan;
using namespace parplan::test;
using namespace parplan::tools;

namespace {

traces::TraceFile empty_file(int steps) {
  traces::TraceFile file;
  file.plan = plan_of(make_mlp({}), "single", 8, 1);
  file.trace.ranks = 1;
  file.trace.steps = steps;
  return file;
}

Key step_key() { return Key(Phase::kStep, 0, 0, Key::kNone, 0, Key::kWholeInstruction); }
Key operation(std::uint32_t microbatch, OpCode code = OpCode::kLinearForward) {
  return Key(Phase::kForward, 0, microbatch, 0, 0, static_cast<std::uint32_t>(code));
}

void add(traces::TraceFile& file, Key key, int step, std::int64_t start_us, std::int64_t end_us,
         Stream stream = Stream::kCompute, std::int64_t waiting_us = 0) {
  TraceEvent e;
  e.key = key;
  e.step = step;
  e.stream = stream;
  e.start = Picoseconds{start_us * 1000000};
  e.end = Picoseconds{end_us * 1000000};
  e.waiting = Picoseconds{waiting_us * 1000000};
  file.trace.events.push_back(e);
}

}  // namespace

TEST_CASE("the step nearest to the median is drawn, from its own start", "[tools]") {
  traces::TraceFile file = empty_file(3);
  for (const auto& [step, start, length] :
       std::vector<std::tuple<int, int, int>>{{4, 0, 100}, {5, 200, 50}, {6, 300, 60}}) {
    add(file, step_key(), step, start, start + length);
    add(file, operation(0), step, start + 5, start + 25);
  }
  CHECK(typical_step(file.trace) == 6);  // of 50, 60, 100
  CHECK(start_of_step(file.trace, 6) == Picoseconds{300'000'000});
  const Timeline t = build_timeline({{"measured", &file}}, 100);
  REQUIRE(t.panels.size() == 1);
  CHECK(t.panels[0].step == 6);
  CHECK(t.panels[0].step_us == Approx(60));
  REQUIRE(t.panels[0].lanes.size() == 1);
  REQUIRE(t.panels[0].lanes[0].bars.size() == 1);
  CHECK(t.panels[0].lanes[0].bars[0].start_us == Approx(5));
  CHECK(t.panels[0].lanes[0].bars[0].end_us == Approx(25));
  CHECK(t.end_us == Approx(60));
}

TEST_CASE("events that overlap on one stream get rows, four at most", "[tools]") {
  traces::TraceFile file = empty_file(1);
  add(file, step_key(), 0, 0, 100);
  for (std::uint32_t m = 0; m < 6; ++m) {
    add(file, Key(Phase::kReceiveActivation, 0, m, Key::kNone, 0, Key::kWholeInstruction), 0, 0,
        10 * (m + 1), Stream::kPipelineReceive, 5);
  }
  add(file, Key(Phase::kReceiveActivation, 0, 9, Key::kNone, 0, Key::kWholeInstruction), 0, 70, 80,
      Stream::kPipelineReceive);
  const Timeline t = build_timeline({{"measured", &file}}, 100);
  REQUIRE(t.panels[0].lanes.size() == 2);
  const TimelineLane& lane = t.panels[0].lanes[1];
  CHECK(lane.rows == 4);
  std::vector<int> rows;
  for (const TimelineBar& bar : lane.bars) rows.push_back(bar.row);
  CHECK(rows == std::vector<int>{0, 1, 2, 3, 3, 3, 0});
  CHECK(lane.bars[0].waiting_us == Approx(5));
}

TEST_CASE("the same event of both traces is joined by key, rank and occurrence", "[tools]") {
  traces::TraceFile predicted = empty_file(1);
  traces::TraceFile measured = empty_file(1);
  add(predicted, operation(0), 0, 0, 10);
  add(predicted, operation(1), 0, 10, 20);
  add(measured, operation(1), 0, 0, 14);
  add(measured, operation(1), 0, 14, 30);  // a second time: no partner
  const Timeline t = build_timeline({{"predicted", &predicted}, {"measured", &measured}}, 100);
  REQUIRE(t.events.size() == 3);
  CHECK(t.events[0].duration_us == std::vector<double>{10, -1});
  CHECK(t.events[1].duration_us == std::vector<double>{10, 14});
  CHECK(t.events[2].duration_us == std::vector<double>{-1, 16});
}

TEST_CASE("all panels have the same lanes, also where a trace lacks a stream", "[tools]") {
  traces::TraceFile predicted = empty_file(1);
  traces::TraceFile measured = empty_file(1);
  add(predicted, operation(0), 0, 0, 10);
  add(measured, operation(0), 0, 0, 10);
  add(measured, Key(Phase::kReduceGradients, 0, 0, Key::kNone, 0, Key::kWholeInstruction), 0, 5, 9,
      Stream::kDataParallel);
  const Timeline t = build_timeline({{"predicted", &predicted}, {"measured", &measured}}, 100);
  REQUIRE(t.panels[0].lanes.size() == 2);
  REQUIRE(t.panels[1].lanes.size() == 2);
  CHECK(t.panels[0].lanes[1].stream == Stream::kDataParallel);
  CHECK(t.panels[0].lanes[1].bars.empty());
}

TEST_CASE("too many bars are merged without losing time or events", "[tools]") {
  traces::TraceFile file = empty_file(1);
  constexpr int kEvents = 20000;
  add(file, step_key(), 0, 0, 10 * kEvents);
  for (int i = 0; i < kEvents; ++i) {
    const OpCode code = i % 4 == 0 ? OpCode::kLayerNormForward : OpCode::kLinearForward;
    add(file, operation(static_cast<std::uint32_t>(i) / 100, code), 0, 10 * i, 10 * i + 8);
  }
  const Timeline whole = build_timeline({{"measured", &file}}, kEvents);
  CHECK(whole.bar_count == kEvents);
  CHECK(whole.merge_below_us == 0.0);
  const Timeline t = build_timeline({{"measured", &file}}, 1000);
  CHECK(t.event_count == kEvents);
  CHECK(t.bar_count <= 1000);
  CHECK(t.merge_below_us > 0.0);
  const TimelineLane& lane = t.panels[0].lanes[0];
  CHECK(lane.bars.size() == t.bar_count);
  std::int64_t events = 0;
  double busy = 0.0, last_end = 0.0;
  for (const TimelineBar& bar : lane.bars) {
    events += bar.merged;
    busy += bar.busy_us;
    CHECK(bar.style == EventStyle::kLinear);  // three quarters of each merged bar
    CHECK(bar.start_us >= last_end);
    last_end = bar.end_us;
  }
  CHECK(events == kEvents);
  CHECK(busy == Approx(8.0 * kEvents));
  CHECK(lane.blocks.size() == 200);  // microbatches are not merged
}

TEST_CASE("long bars stay what they are while short neighbours are merged", "[tools]") {
  traces::TraceFile file = empty_file(1);
  add(file, step_key(), 0, 0, 100000);
  add(file, operation(0), 0, 0, 50000);
  for (int i = 0; i < 500; ++i) add(file, operation(1), 0, 50000 + 2 * i, 50000 + 2 * i + 1);
  const Timeline t = build_timeline({{"measured", &file}}, 200);
  const auto& bars = t.panels[0].lanes[0].bars;
  REQUIRE(bars.size() <= 200);
  CHECK(bars[0].merged == 1);
  CHECK(bars[0].end_us == Approx(50000));
}
