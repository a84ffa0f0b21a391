#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/core/cluster.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/trace.hpp"
#include "traces/trace_file.hpp"

namespace parplan::test {

/// A machine of round numbers on which computing, transfers and overhead all take visible time.
Cluster small_machine();

/// A plan with the layers placed.
Plan plan_of(Model model, const std::string& layout, std::int64_t batch, std::int64_t sequence);

/// What sim::simulate predicts.
traces::TraceFile predicted_for(const Plan& plan, const Cluster& cluster);

/// A made-up measurement of the same plan: `steps` steps in which all times are stretched by
/// `stretch`, a little differently from step to step, and operations end up to a tenth early (the
/// rest becomes overhead). The same arguments give the same trace.
traces::TraceFile measured_like(const traces::TraceFile& predicted, int steps, double stretch);

}  // namespace parplan::test
