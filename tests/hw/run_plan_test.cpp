#include "hw/executor/run_plan.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hw/executor/process_memory.hpp"
#include "hw/world.hpp"
#include "sim/core/error.hpp"
#include "sim/core/plan_json.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/small_models.hpp"
#include "tests/hw/training.hpp"

using namespace parplan;
using namespace parplan::hw;

namespace {

constexpr std::string_view kEverything = "dp=2,tp=2,pp=2,schedule=1f1b,microbatches=2";

Plan gpt2_plan(std::string_view layout) {
  return small_plan(small_gpt2(), reference_workload(8, 16), layout);
}

RunOptions steps(std::int64_t count) {
  RunOptions options;
  options.steps = count;
  return options;
}

std::map<std::uint64_t, int> count_keys(const Trace& trace, int rank, int step) {
  std::map<std::uint64_t, int> counts;
  for (const TraceEvent& event : trace.events) {
    if (event.rank == rank && event.step == step) ++counts[event.key.packed];
  }
  return counts;
}

/// Every key of the rank's instruction list and operations, and the whole step.
std::map<std::uint64_t, int> expected_keys(const Plan& plan, const Program& program, int rank) {
  std::map<std::uint64_t, int> counts;
  const RankClass& rank_class =
      program.classes[static_cast<std::size_t>(coordinates_of(rank, program.layout).position)];
  ++counts[Key(Phase::kStep, 0, 0, Key::kNone, 0, Key::kWholeInstruction).packed];
  for (const Instruction& instruction : rank_class.instructions) {
    ++counts[instruction.key.packed];
    for (std::int32_t k = instruction.op_begin; k < instruction.op_end; ++k) {
      const Body& body = rank_class.bodies[static_cast<std::size_t>(instruction.body)];
      ++counts[operation_key(plan.model, body, body.operations[static_cast<std::size_t>(k)],
                             instruction.microbatch)
                   .packed];
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("training on one batch lowers its loss", "[hw]") {
  Workload workload = reference_workload(8, 16);
  workload.data.samples = 8;
  workload.precision = DType::kFloat32;
  workload.optimizer.learning_rate = 1e-2;
  const RunResult run = train(small_plan(small_llama(true), workload, "dp=2"), steps(60));
  CHECK(run.losses.front() > 4.0);  // log(61) = 4.11
  CHECK(run.losses.back() < 1.0);
}

TEST_CASE("epochs, padding and the shuffled order are the same in every layout", "[hw]") {
  Workload workload = reference_workload(8, 16);
  workload.data.shuffle = true;
  workload.data.samples = 21;
  RunOptions options;
  options.epochs = 2;
  const RunResult single = train(small_plan(small_gpt2(), workload, "dp=1"), options);
  const RunResult run = train(small_plan(small_gpt2(), workload, kEverything), options);
  CHECK(single.steps == 6);
  CHECK(single.epoch.steps == 3);
  CHECK(single.epoch.padded == 3);
  REQUIRE(run.losses.size() == 6);
  for (std::size_t s = 0; s < 6; ++s)
    CHECK(run.losses[s] == Approx(single.losses[s]).epsilon(1e-12));
}

TEST_CASE("the schedule of the learning rate moves the parameters, in every layout", "[hw]") {
  Workload workload = reference_workload(8, 16);
  workload.optimizer.learning_rate = 1e-3;
  const auto parameters = [&](LearningRateSchedule schedule, std::int64_t steps,
                              std::string_view layout) {
    Workload w = workload;
    w.optimizer.schedule = schedule;
    RunOptions options;
    options.steps = steps;
    options.snapshot_after = {steps};
    return train(small_plan(small_gpt2(), w, layout), options).snapshots.at(0).parameters;
  };
  const auto same = [](const std::vector<LogicalTensor>& a, const std::vector<LogicalTensor>& b) {
    double worst = 0;
    for (std::size_t t = 0; t < a.size(); ++t) {
      for (std::size_t i = 0; i < a[t].values.size(); ++i) {
        worst = std::max(worst, std::abs(a[t].values[i] - b[t].values[i]));
      }
    }
    return worst < 1e-12;
  };
  const std::string_view layout = GENERATE(std::string_view("dp=1"), kEverything);
  // The first of four steps of warm-up has a quarter of the rate.
  const auto warm = parameters({Decay::kConstant, 4}, 1, layout);
  workload.optimizer.learning_rate /= 4;
  CHECK(same(warm, parameters({}, 1, layout)));
  workload.optimizer.learning_rate *= 4;
  CHECK_FALSE(same(warm, parameters({}, 1, layout)));
  // At the end of a decay to nothing nothing moves.
  const LearningRateSchedule decay{Decay::kCosine, 1, 4, 0.0};
  const auto ended = parameters(decay, 4, layout);
  CHECK(same(ended, parameters(decay, 3, layout)));
  CHECK_FALSE(same(ended, parameters(decay, 2, layout)));
}

TEST_CASE("a run repeats bit for bit", "[hw]") {
  Workload workload = reference_workload(8, 16);
  workload.precision = DType::kFloat32;
  const Plan plan = small_plan(small_gpt2(0.1), workload, kEverything);
  CHECK(train(plan, steps(5)).losses == train(plan, steps(5)).losses);
}

TEST_CASE("the trace holds every instruction and operation of every rank, in order", "[hw]") {
  const Plan plan = gpt2_plan(kEverything);
  RunOptions options = steps(5);
  options.trace_steps = 2;
  const RunResult run = train(plan, options);
  const Trace& trace = run.trace;
  CHECK(trace.source == TraceSource::kMeasured);
  CHECK(trace.ranks == 8);
  CHECK(trace.steps == 2);
  CHECK(trace.plan_digest == digest_of(plan));
  CHECK(trace.losses == run.losses);
  REQUIRE(trace.summaries.size() == 8);
  const Program program = lower(plan);
  for (int rank = 0; rank < 8; ++rank) {
    for (const int step : {3, 4}) {
      CHECK(count_keys(trace, rank, step) == expected_keys(plan, program, rank));
    }
    CHECK(count_keys(trace, rank, 2).empty());
  }
  std::int64_t earliest = trace.events.front().start.value;
  for (const TraceEvent& event : trace.events) {
    CHECK(event.start <= event.end);
    CHECK(event.waiting.value >= 0);
    CHECK(event.waiting <= event.end - event.start);
    earliest = std::min(earliest, event.start.value);
    const bool compute = event.stream == Stream::kCompute;
    CHECK((compute ? event.cpu.value == 0 : event.cpu.value >= 0));
  }
  CHECK(earliest == 0);
}

TEST_CASE("operations of a rank follow each other and fill their instruction", "[hw]") {
  RunOptions options = steps(2);
  options.trace_steps = 1;
  const Trace trace = train(gpt2_plan("pp=2,schedule=1f1b,microbatches=4"), options).trace;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<TraceEvent> operations;
    std::vector<TraceEvent> instructions;
    for (const TraceEvent& event : trace.events) {
      const bool body =
          event.key.phase() == Phase::kForward || event.key.phase() == Phase::kBackward;
      if (event.rank != rank || !body) continue;
      (event.key.code() == Key::kWholeInstruction ? instructions : operations).push_back(event);
    }
    std::size_t next = 0;
    for (const TraceEvent& instruction : instructions) {
      Picoseconds time = instruction.start;
      Flop flop{0.0};
      while (next < operations.size() && operations[next].end <= instruction.end) {
        CHECK(operations[next].start == time);
        time = operations[next].end;
        flop += operations[next].flop;
        ++next;
      }
      CHECK(time == instruction.end);
      CHECK(flop.value == Approx(instruction.flop.value));
    }
    CHECK(next == operations.size());
  }
}

TEST_CASE("measured memory is the replay of the program", "[hw]") {
  const Plan plan = gpt2_plan("dp=2,pp=2,schedule=gpipe,microbatches=4");
  RunOptions options = steps(2);
  options.trace_steps = 1;
  const RunResult run = train(plan, options);
  const Program program = lower(plan);
  for (int rank = 0; rank < 4; ++rank) {
    const int position = coordinates_of(rank, program.layout).position;
    const MemoryReplay replay =
        replay_memory(program.classes[static_cast<std::size_t>(position)], program.precision);
    CHECK(run.summaries[static_cast<std::size_t>(rank)].peak_tensor_bytes == replay.peak.total());
    std::vector<std::int64_t> totals;
    for (const MemorySample& sample : run.trace.memory) {
      if (sample.rank == rank) totals.push_back(sample.total().value);
    }
    REQUIRE(totals.size() == replay.points.size() + 1);
    for (std::size_t i = 0; i < replay.points.size(); ++i) {
      CHECK(totals[i] == replay.points[i].live.total().value);
    }
    CHECK(totals.back() == replay.flat.value);
    CHECK(*std::max_element(totals.begin(), totals.end()) == replay.peak.total().value);
  }
  CHECK(run.summaries[0].peak_process_bytes.value >
        replay_memory(program.classes[0], program.precision).peak.total().value);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a process holds its tensors once", "[hw]") {
  // Two weights of 16.8 MB, each with gradient and moments. A copy of one that stays with the
  // allocator, or unused buffers of the library, would show.
  LinearPairSpec spec;
  spec.in = spec.hidden = spec.out = 2048;
  Workload workload = reference_workload(2, 1);
  workload.precision = DType::kFloat32;
  workload.data.samples = 2;
  const Plan plan = small_plan(make_linear_pair(spec), workload, "single");
  const Bytes before = resident_process_bytes();
  const RunResult run = train(plan, steps(1));
  const Bytes tensors = run.memory.flat + run.memory.arena;
  REQUIRE(tensors.value > 4 * 2 * 2048 * 2048 * 4);
  const Bytes grown = run.summaries[0].peak_process_bytes - before;
  CHECK(grown.value > tensors.value * 9 / 10);
  CHECK(grown.value < tensors.value + 6'000'000);
}
#endif

TEST_CASE("an interrupt of any rank stops all ranks after the same step", "[hw]") {
  const Plan plan = gpt2_plan("dp=2,pp=2,schedule=1f1b,microbatches=2");
  std::atomic<bool> interrupt{false};
  RunResult result;
  std::vector<std::int64_t> done(4);
  std::atomic<int> interrupted{0};
  run_thread_ranks(4, [&](World& world) {
    RunOptions options = steps(1'000'000);
    options.trace_steps = 3;
    // Only the last rank listens; rank 0 gives the signal after its third step.
    if (world.rank() == 3) options.interrupt = &interrupt;
    options.progress = [&](const RunProgress& progress) {
      if (progress.step == 3) interrupt = true;
    };
    RunResult own = run_plan(world, plan, options);
    done[static_cast<std::size_t>(world.rank())] = own.steps;
    interrupted += own.interrupted ? 1 : 0;
    if (world.rank() == 0) result = std::move(own);
  });
  CHECK(interrupted == 4);
  CHECK(std::set<std::int64_t>(done.begin(), done.end()).size() == 1);
  CHECK(done[0] >= 3);
  CHECK(done[0] < 1'000'000);
  CHECK(static_cast<std::int64_t>(result.losses.size()) == done[0]);
  CHECK(result.trace.steps == 3);
}

TEST_CASE("a world of the wrong size is refused with both numbers", "[hw]") {
  const Plan plan = gpt2_plan("dp=2,tp=2");
  const auto run_on = [&](int ranks) {
    run_thread_ranks(ranks, [&](World& world) { (void)run_plan(world, plan, steps(1)); });
  };
  CHECK_THROWS_AS(run_on(3), InputError);
  CHECK_THROWS_WITH(run_on(3), ContainsSubstring("dp=2,tp=2 needs 4 ranks, the job has 3"));
}

TEST_CASE("ranks with different plans or options are refused by name", "[hw]") {
  const auto run_with = [&](const auto& change) {
    run_thread_ranks(2, [&](World& world) {
      Plan plan = gpt2_plan("dp=2");
      RunOptions options = steps(1);
      if (world.rank() == 1) change(plan, options);
      (void)run_plan(world, plan, options);
    });
  };
  CHECK_THROWS_WITH(run_with([](Plan& plan, RunOptions&) { plan.layout = parse_layout("tp=2"); }),
                    ContainsSubstring("layout is 'dp=2' on rank 0 and 'tp=2' on rank 1"));
  CHECK_THROWS_WITH(
      run_with([](Plan& plan, RunOptions&) { plan.workload.optimizer.learning_rate = 0.5; }),
      ContainsSubstring("plan digest is"));
  CHECK_THROWS_WITH(run_with([](Plan&, RunOptions& options) { options.steps = 2; }),
                    ContainsSubstring("steps is '1' on rank 0 and '2' on rank 1"));
}

TEST_CASE("options out of range and layouts that break a rule are refused", "[hw]") {
  CHECK_THROWS_AS(train(gpt2_plan("dp=1"), steps(0)), InputError);
  RunOptions options = steps(1);
  options.threads = 0;
  CHECK_THROWS_AS(train(gpt2_plan("dp=1"), options), InputError);
  CHECK_THROWS_WITH(train(gpt2_plan("dp=3"), steps(1)),
                    ContainsSubstring("global batch 8 does not divide by dp=3"));
}

TEST_CASE("given initial values replace the drawn ones, in every layout", "[hw]") {
  RunOptions options = steps(2);
  options.snapshot_after = {2};
  const std::vector<LogicalTensor> start =
      train(gpt2_plan("dp=1"), options).snapshots.at(0).parameters;
  options.initial_parameters = &start;
  const RunResult single = train(gpt2_plan("dp=1"), options);
  CHECK(single.losses != train(gpt2_plan("dp=1"), steps(2)).losses);
  const RunResult run = train(gpt2_plan(kEverything), options);
  for (std::size_t s = 0; s < 2; ++s)
    CHECK(run.losses[s] == Approx(single.losses[s]).epsilon(1e-12));

  std::vector<LogicalTensor> wrong = start;
  std::swap(wrong[0], wrong[1]);
  options.initial_parameters = &wrong;
  CHECK_THROWS_WITH(train(gpt2_plan("dp=1"), options),
                    ContainsSubstring("is given for parameter 'embedding.weight' [61, 32]"));
}
