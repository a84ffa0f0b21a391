#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/core/program.hpp"
#include "sim/cost_model.hpp"
#include "traces/intervals.hpp"
#include "traces/trace_file.hpp"

namespace parplan::traces {

/// Which part of its core each rank's transfers took in a measured trace, while they were under
/// way.
///
/// Transfers that overlap in time form one period. What the cost model says all of them need of the
/// core is taken to be spread evenly over it: over a slow link they keep the core busy at a steady
/// rate, and where they only go on when the rank looks, it looks all the time.
class CoreShare {
 public:
  CoreShare(const TraceFile& file, const Program& program, const sim::CostModel& costs);

  /// The part of [start, end) on a rank, 0 to kMost.
  double taken(std::int32_t rank, Picoseconds start, Picoseconds end) const;

  static constexpr double kMost = 0.9;

 private:
  struct Period {
    Interval time;
    double cpu_s = 0.0;
    double share() const;
  };
  std::map<std::int32_t, std::vector<Period>> periods_;  ///< by rank, in time order, apart
};

}  // namespace parplan::traces
