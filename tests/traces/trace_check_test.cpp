#include "traces/trace_check.hpp"

#include <algorithm>
#include <functional>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/traces/small_run.hpp"

using namespace parplan;
using traces::TraceFile;

namespace {

TraceFile good() {
  return test::measured_on(test::tiny_plan("dp=2,microbatches=2"), test::round_machine(), 3);
}

bool is_step(const TraceEvent& e) { return e.key.phase() == Phase::kStep; }

void check_refused(const std::string& reason, const std::function<void(Trace&)>& damage) {
  INFO(reason);
  TraceFile file = good();
  damage(file.trace);
  CHECK_THROWS_AS(traces::check_trace(file, "run.json"), InputError);
  CHECK_THROWS_WITH(traces::check_trace(file, "run.json"),
                    ContainsSubstring("run.json: " + reason));
}

void repeat(Trace& trace, const std::function<bool(const TraceEvent&)>& which) {
  const std::vector<TraceEvent> before = trace.events;
  for (const TraceEvent& e : before) {
    if (which(e)) trace.events.push_back(e);
  }
}

}  // namespace

TEST_CASE("traces of every layout are consistent", "[traces]") {
  CHECK_NOTHROW(traces::check_trace(good(), "run.json"));
  for (const char* layout : {"single", "pp=2,microbatches=4", "tp=2", "mp=2",
                             "dp=2,pp=2,schedule=gpipe,microbatches=2", "dp=2,tp=2,pp=2"}) {
    INFO(layout);
    const TraceFile file = test::predicted_of(test::tiny_plan(layout), test::round_machine());
    CHECK_NOTHROW(traces::check_trace(file, "predicted.json"));
  }
}

TEST_CASE("a prediction may trace one rank of a stage", "[traces]") {
  TraceFile file = test::predicted_of(test::tiny_plan("dp=2"), test::round_machine());
  std::erase_if(file.trace.events, [](const TraceEvent& e) { return e.rank == 1; });
  CHECK_NOTHROW(traces::check_trace(file, "predicted.json"));
}

TEST_CASE("ranks and steps that are missing or too many are named", "[traces]") {
  check_refused("rank 1 has no step", [](Trace& t) {
    std::erase_if(t.events, [](const TraceEvent& e) { return e.rank == 1; });
  });
  check_refused("\"steps\" is 9999999, rank 0 has 3", [](Trace& t) { t.steps = 9999999; });
  check_refused("\"steps\" is 3, rank 0 has 2", [](Trace& t) {
    std::erase_if(t.events, [](const TraceEvent& e) { return e.step == 1; });
  });
  check_refused("rank 1, step 1: no event of the whole step", [](Trace& t) {
    std::erase_if(t.events, [](const TraceEvent& e) { return e.step == 1 && e.rank == 1; });
  });
  check_refused("rank 1 has 4 steps, rank 0 has 3", [](Trace& t) {
    TraceEvent more = t.events.back();
    for (const TraceEvent& e : t.events) {
      if (is_step(e) && e.rank == 1) more = e;
    }
    more.step = 17;
    t.events.push_back(more);
  });
  check_refused("no event of a whole step", [](Trace& t) { std::erase_if(t.events, is_step); });
  check_refused("rank 1 has two summaries",
                [](Trace& t) { t.summaries.push_back(t.summaries.at(1)); });
}

TEST_CASE("events that are there twice are named", "[traces]") {
  check_refused("rank 0, step 0: two events of the whole step",
                [](Trace& t) { repeat(t, [](const TraceEvent&) { return true; }); });
  check_refused("rank 0, step 0: forward/chunk 0",
                [](Trace& t) { repeat(t, [](const TraceEvent& e) { return !is_step(e); }); });
}

TEST_CASE("events outside their step are named", "[traces]") {
  const auto first_operation = [](Trace& t) -> TraceEvent& {
    return *std::find_if(t.events.begin(), t.events.end(), [](const TraceEvent& e) {
      return e.rank == 1 && e.step == 2 && e.stream == Stream::kCompute && !is_step(e);
    });
  };
  check_refused("rank 1, step 2: ", [&](Trace& t) {
    TraceEvent& e = first_operation(t);
    e.end += Picoseconds{1000000000000};
  });
  check_refused("rank 1, step 2: ",
                [&](Trace& t) { first_operation(t).start -= Picoseconds{1000000000000}; });
  check_refused("rank 1, step 7: ", [&](Trace& t) { first_operation(t).step = 7; });
}

TEST_CASE("steps that do not follow one another, or not the losses, are named", "[traces]") {
  const auto renamed = [](Trace& t) {
    for (TraceEvent& e : t.events) {
      if (e.step == 2) e.step = 100;
    }
  };
  check_refused("the steps from 0 to 100 are not all there", renamed);
  check_refused("100 losses, but the last step is 2, counted from 0",
                [](Trace& t) { t.losses.assign(100, 1.0); });
  TraceFile file = good();
  file.trace.losses.assign(3, 1.0);
  CHECK_NOTHROW(traces::check_trace(file, "run.json"));
}

TEST_CASE("a rank whose clock is wrong is named", "[traces]") {
  check_refused("rank 1, step 0 begins after rank 0 has ended that step", [](Trace& t) {
    for (TraceEvent& e : t.events) {
      if (e.rank == 1) {
        e.start += Picoseconds{1'000'000'000'000};
        e.end += Picoseconds{1'000'000'000'000};
      }
    }
  });
}

TEST_CASE("an event that only some steps have is named", "[traces]") {
  const auto is_loss = [](const TraceEvent& e) {
    return e.rank == 1 && e.step == 1 && e.stream == Stream::kCompute && !is_step(e);
  };
  const TraceFile file = good();
  const auto first = std::find_if(file.trace.events.begin(), file.trace.events.end(), is_loss);
  REQUIRE(first != file.trace.events.end());
  const std::string name = to_string(first->key, file.plan.model);
  check_refused(
      "rank 1, step 1: " + name + " on the stream compute is missing, step 0 has it",
      [&](Trace& t) { t.events.erase(std::find_if(t.events.begin(), t.events.end(), is_loss)); });
  check_refused("rank 1, step 1: " + name + " on the stream compute is missing, step 0 has it",
                [&](Trace& t) {
                  std::find_if(t.events.begin(), t.events.end(), is_loss)->stream =
                      Stream::kPipelineSend;
                });
}
