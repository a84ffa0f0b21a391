#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/breakdown.hpp"
#include "traces/trace_file.hpp"

namespace parplan::traces {

/// Predicted and measured time of one thing: medians over the steps that count, time spent waiting
/// for a peer left out. Of transfers that are under way at once each counts from the end of the one
/// before it. Relative error: predicted / measured - 1.
struct ErrorRow {
  std::string name;
  std::int32_t rank = -1;  ///< -1: summed over all ranks
  std::int64_t count = 0;  ///< events per step
  Seconds predicted;
  Seconds measured;
  /// The part of it that the rank stands still for: of operations all, of a transfer what of the
  /// gap between operations in which it ends passes from the end of the one before it.
  Seconds predicted_exposed, measured_exposed;
  double relative_spread = 0.0;  ///< of the measurement: (p90 - p10) / median over steps

  /// What the error does to the step: of the exposed parts.
  Seconds difference() const { return predicted_exposed - measured_exposed; }
  double relative_error() const { return measured.value > 0.0 ? predicted / measured - 1.0 : 0.0; }
};

/// The gap between predicted and measured step time, taken from the parts of the rank that is
/// slowest as measured; positive: predicted longer.
struct GapDecomposition {
  Seconds compute;
  Seconds communication;
  Seconds waiting;
  Seconds overhead;
  /// Step-time gap minus the parts: another rank is predicted the slowest, or the slowest one
  /// differs from step to step, so that each is below the mean of the slowest.
  Seconds unexplained;
  Seconds total;
};

struct MemoryRow {
  std::int32_t rank = 0;
  Bytes predicted_tensors, measured_tensors;
  Bytes predicted_process, measured_process;
};

struct Comparison {
  /// In what else than time the prediction and the measurement differ, so that the error is not the
  /// cost model's alone: the device, the threads of a rank.
  std::vector<std::string> caveats;
  Seconds predicted_step;
  Seconds measured_step;
  double measured_spread = 0.0;   ///< relative, over the steps that count
  std::vector<ErrorRow> steps;    ///< each measured step against the prediction
  std::size_t counted_steps = 0;  ///< the last so many of `steps`; less: without the warm-up
  /// By op code or kind of communication, slowest first. A transfer between positions has events on
  /// two ranks; here and in the next it counts at its receiver.
  std::vector<ErrorRow> kinds;
  std::vector<ErrorRow> layers;      ///< by layer of the model
  std::vector<ErrorRow> operations;  ///< by key and rank, largest |difference| first
  std::vector<RankBreakdown> predicted_ranks, measured_ranks;
  GapDecomposition gap;
  std::vector<MemoryRow> memory;
  /// Events of one side that have no partner on the other, by name; empty when the plan was
  /// executed as predicted.
  std::vector<std::string> only_predicted, only_measured;
};

/// What messages call the two traces.
struct ComparedNames {
  std::string predicted = "the first trace";
  std::string measured = "the second trace";
};

/// Joins two traces of one plan by key and rank. Throws InputError when the plans differ (both
/// digests are named) or when the first is not predicted or the second not measured.
Comparison compare(const TraceFile& predicted, const TraceFile& measured,
                   const ComparedNames& names = {});

}  // namespace parplan::traces
