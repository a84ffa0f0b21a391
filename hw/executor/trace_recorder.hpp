#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hw/executor/bound_step.hpp"
#include "hw/pending.hpp"
#include "hw/world.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/trace.hpp"

namespace parplan::hw {

/// One communication of a step, on this rank's clock.
struct CommunicationRecord {
  std::int64_t posted_ns = 0;
  std::int64_t peer_arrived_ns = 0;
  std::int64_t completed_ns = 0;
  std::int64_t progress_ns = 0;  ///< time that polling took from the computation
};

/// Clock readings of one step, in the order in which the step makes them:
/// step begin; per instruction kRun: its start, then the end of each operation; per kOptimizer: its
/// start and end; step end.
struct StepRecord {
  std::int64_t step = 0;
  std::vector<std::int64_t> stamps;
  std::vector<CommunicationRecord> communication;  ///< by comm_slot
};

/// Keeps the records of the last `capacity` steps of one rank. All columns exist before the first
/// step; recording is one clock reading and one store per boundary.
class TraceRecorder {
 public:
  TraceRecorder(const BoundStep& step, std::int64_t capacity);

  void begin_step(std::int64_t step);
  void stamp() { *next_++ = now(); }
  void communication(std::int32_t slot, const CommTimes& times);

  /// Complete steps that are still kept, oldest first.
  std::vector<const StepRecord*> records() const;

 private:
  static std::int64_t now() { return to_ns(Clock::now()); }
  static std::int64_t to_ns(Clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
  }

  std::vector<StepRecord> records_;
  std::int64_t recorded_ = 0;
  StepRecord* current_ = nullptr;
  std::int64_t* next_ = nullptr;
};

/// Readings of one rank's clock become readings of rank 0's: by the better of two alignments, or by
/// interpolation between them where the clocks drifted apart by more than their uncertainty.
class ClockLine {
 public:
  ClockLine(ClockOffset before, std::int64_t before_ns, ClockOffset after, std::int64_t after_ns);
  /// Nanoseconds of rank 0's clock.
  double on_rank0(std::int64_t local_ns) const;

 private:
  double start_offset_ns_;
  double drift_;  ///< nanoseconds of offset per nanosecond
  std::int64_t origin_ns_;
};

/// What one rank measured, on rank 0's clock; times in nanoseconds of that clock stand in the
/// places of picoseconds until `merge_traces` puts the origin at the first step.
struct RankTrace {
  std::vector<TraceEvent> events;
  std::vector<MemorySample> memory;
};

/// Whose stamps a recorder holds.
struct TracedRank {
  int rank = 0;
  const Model& model;
  const RankClass& rank_class;
  const MemoryReplay& replay;
};

RankTrace build_rank_trace(const TraceRecorder& recorder, const BoundStep& step,
                           const TracedRank& traced, const ClockLine& clock);

/// Collective. Rank 0 gets all ranks' events and samples with times from the start of the first
/// traced step, sorted by rank and start; the others get an empty trace. `summary` is this rank's.
Trace merge_traces(World& world, RankTrace own, const RankSummary& summary);

}  // namespace parplan::hw
