#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/key.hpp"
#include "sim/core/program.hpp"
#include "sim/core/units.hpp"

namespace parplan {

/// One thing that happened on one rank. Times count from the start of the traced steps, on one
/// clock for all ranks.
struct TraceEvent {
  Key key;
  std::int32_t rank = 0;
  std::int32_t step = 0;
  Stream stream = Stream::kCompute;
  Picoseconds start;
  Picoseconds end;
  /// Part of [start, end) spent waiting for a peer that had not arrived; the rest is work or
  /// transfer.
  Picoseconds waiting;
  /// Time of the rank's own core that a transfer took; only on communication streams.
  Picoseconds cpu;
  Bytes bytes;
  Flop flop;

  bool operator==(const TraceEvent&) const = default;
};

/// Memory of one rank at one moment, by kind.
struct MemorySample {
  std::int32_t rank = 0;
  std::int32_t step = 0;
  Picoseconds time;
  Bytes parameters;
  Bytes gradients;
  Bytes moments;      ///< the optimizer's state: moments and master weights
  Bytes activations;  ///< inputs, activations and their gradients
  Bytes buffers;      ///< communication and workspace
  Bytes total() const { return parameters + gradients + moments + activations + buffers; }

  bool operator==(const MemorySample&) const = default;
};

enum class TraceSource : std::uint8_t { kPredicted, kMeasured };

struct RankSummary {
  std::int32_t rank = 0;
  Bytes peak_tensor_bytes;   ///< tensors we own
  Bytes peak_process_bytes;  ///< resident memory of the process; predicted: process_bytes + arena
  bool operator==(const RankSummary&) const = default;
};

/// Predicted or measured: the same keys, the same meaning. Whole-step events carry Phase::kStep.
struct Trace {
  TraceSource source = TraceSource::kPredicted;
  std::string plan_digest;
  std::string machine;  ///< that the plan was made for, or the step was predicted for
  std::string device;   ///< that computed, as DeviceSpec names it; empty: not known
  std::int32_t ranks = 0;
  std::int32_t threads_per_rank = 1;  ///< that computed; predictions are for one
  std::int32_t steps = 0;
  std::vector<TraceEvent> events;
  std::vector<MemorySample> memory;
  std::vector<RankSummary> summaries;
  std::vector<double> losses;  ///< measured: one per step, of the global batch

  bool operator==(const Trace&) const = default;
};

}  // namespace parplan
