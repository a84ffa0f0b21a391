#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/core/plan.hpp"
#include "sim/simulate.hpp"
#include "tools/cli/plan_options.hpp"

namespace parplan::tools {

/// One line on what is trained.
std::string describe_model(const Model& model, const Workload& workload);
/// Step time, throughput, where the time goes and memory per stage or device, for people.
void print_simulation(std::ostream& out, const Plan& plan, const sim::Simulation& simulation,
                      const Cluster& cluster);
/// The same as JSON: docs/formats/output.md.
nlohmann::ordered_json simulation_json(const Plan& plan, const sim::Simulation& simulation);
/// Either on standard output. Where the plan does not fit, JSON does not say so; then standard
/// error does.
void report_simulation(const Plan& plan, const sim::Simulation& simulation, const Cluster& cluster,
                       OutputFormat format);
/// Samples and positions per second.
double tokens_per_second(const Workload& workload, Seconds step);

}  // namespace parplan::tools
