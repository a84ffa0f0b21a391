#pragma once

#include <string>
#include <vector>

#include "sim/core/cluster.hpp"
#include "traces/trace_file.hpp"

namespace parplan::traces {

/// What a calibration changed, for people.
struct CalibrationSummary {
  std::int64_t events = 0;      ///< measured events that were used
  std::int64_t new_shapes = 0;  ///< samples of shapes the machine file did not have
  std::int64_t refitted_shapes = 0;
  std::int64_t new_transfers = 0;  ///< the same of transfers and collectives by size
  std::int64_t refitted_transfers = 0;
  std::vector<CalibrationFactor> factors;  ///< those that were fitted
};

struct NamedTrace {
  std::string name;  ///< goes into the provenance
  TraceFile file;
};

/// Refits a machine file from measured traces; the result keeps what it was fitted from.
///
/// Of each trace the typical steps count (`typical_steps`): fewer disturbed steps than a quarter do
/// not matter, and what every step pays is not taken for a disturbance.
/// - Operations: the mean duration, less what transfers beside them took (`CoreShare`), of each
///   (code, dtype, shape, variant, concurrency) over steps, ranks, microbatches and layers becomes
///   a sample, replacing one of the same shape.
/// - A factor per operation code with at least three shapes in the traces: the median of measured
///   over interpolated time among them, each priced from all other samples, old and new. It applies
///   to shapes that were not measured.
/// - Transfers and collectives: see transfer_evidence.hpp.
/// - Overheads of the device: gaps of the compute stream in which nothing is awaited, as a
///   constant per operation or instruction and one per step.
/// Throws InputError when a trace is predicted or has no step, was measured on another device than
/// the machine's, or is there twice, when its plan cannot be lowered, or its ranks shared cores
/// (`sim::share_cores`): how long an operation took then depends on whose turn it was.
Cluster calibrate(const Cluster& machine, const std::vector<NamedTrace>& traces,
                  CalibrationSummary* summary = nullptr);

}  // namespace parplan::traces
