#include "tools/cli/describe.hpp"

#include <iostream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sim/core/json_writer.hpp"
#include "sim/core/message_text.hpp"
#include "tools/text_table.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

constexpr std::size_t kShownName = 80;

std::string memory_text(const MemoryByKind& peak) {
  std::string text;
  for (std::size_t k = 0; k < kTensorKinds; ++k) {
    const auto kind = static_cast<TensorKind>(k);
    if (peak.of(kind).value == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(name_of(kind)) + " " + text_of(peak.of(kind));
  }
  return text;
}

std::string text_of_misfit(const sim::Simulation& s, const Cluster& cluster) {
  return "does not fit: " + text_of(s.peak_memory()) + " needed, " +
         text_of(cluster.device.memory) + " there";
}

}  // namespace

double tokens_per_second(const Workload& workload, Seconds step) {
  return static_cast<double>(workload.global_batch * workload.sequence) / step.value;
}

std::string describe_model(const Model& model, const Workload& workload) {
  return shortened(model.name, kShownName) + ", " +
         text_of_count(static_cast<double>(model.parameter_count())) + " parameters, " +
         std::to_string(workload.global_batch) + " x " + std::to_string(workload.sequence) +
         " per step, " + std::string(name_of(workload.precision));
}

void print_simulation(std::ostream& out, const Plan& plan, const sim::Simulation& s,
                      const Cluster& cluster) {
  out << "model      " << describe_model(plan.model, plan.workload) << '\n'
      << "layout     " << to_string(plan.layout) << " on " << plan.layout.ranks() << " of "
      << cluster.devices() << " devices (" << shortened(cluster.name, kShownName) << ")\n"
      << "step time  " << text_of(s.step_time) << ", "
      << text_of_count(tokens_per_second(plan.workload, s.step_time)) << " positions/s\n"
      << "rests on   " << text_of_percent(s.sources.measured) << " measured shapes, "
      << text_of_percent(s.sources.interpolated) << " interpolated, "
      << text_of_percent(s.sources.roofline) << " data-sheet peaks\n\n";
  TextTable table({plan.layout.pp > 1 ? "stage" : "device", "compute", "tensor comm", "copying",
                   "exposed comm", "bubble", "overhead", "tensors", "process"});
  for (const sim::ClassForecast& c : s.classes) {
    const sim::StepBreakdown& b = c.breakdown;
    table.add({std::to_string(c.position), text_of(b.compute), text_of(b.tensor_communication),
               text_of(b.core_communication), text_of(b.exposed_communication), text_of(b.bubble),
               text_of(b.overhead), text_of(c.memory.peak_tensors), text_of(c.memory.process)});
  }
  table.print(out, colour_on_stdout());
  const auto fullest = std::max_element(
      s.classes.begin(), s.classes.end(),
      [](const auto& a, const auto& b) { return a.memory.peak_tensors < b.memory.peak_tensors; });
  out << "\nmemory peak on " << fullest->position << " at "
      << shortened(fullest->memory.peak_moment, 2 * kShownName) << ":\n  "
      << memory_text(fullest->memory.peak) << '\n';
  if (!s.fits(cluster)) out << text_of_misfit(s, cluster) << "\n";
}

nlohmann::ordered_json simulation_json(const Plan& plan, const sim::Simulation& s) {
  nlohmann::ordered_json json{{"layout", to_string(plan.layout)},
                              {"ranks", plan.layout.ranks()},
                              {"step_time_s", s.step_time.value},
                              {"positions_per_s", tokens_per_second(plan.workload, s.step_time)},
                              {"peak_memory_bytes", s.peak_memory().value}};
  json["time_from"] = {{"measured", s.sources.measured},
                       {"interpolated", s.sources.interpolated},
                       {"roofline", s.sources.roofline}};
  nlohmann::ordered_json positions = nlohmann::ordered_json::array();
  for (const sim::ClassForecast& c : s.classes) {
    nlohmann::ordered_json memory;
    for (std::size_t k = 0; k < kTensorKinds; ++k) {
      const auto kind = static_cast<TensorKind>(k);
      std::string key(name_of(kind));
      for (char& ch : key) ch = ch == ' ' ? '_' : ch;
      memory[key + "_bytes"] = c.memory.peak.of(kind).value;
    }
    memory["tensors_bytes"] = c.memory.peak_tensors.value;
    memory["reserved_bytes"] = c.memory.reserved.value;
    memory["process_bytes"] = c.memory.process.value;
    memory["peak_moment"] = c.memory.peak_moment;
    positions.push_back({{"position", c.position},
                         {"compute_s", c.breakdown.compute.value},
                         {"tensor_communication_s", c.breakdown.tensor_communication.value},
                         {"core_communication_s", c.breakdown.core_communication.value},
                         {"exposed_communication_s", c.breakdown.exposed_communication.value},
                         {"bubble_s", c.breakdown.bubble.value},
                         {"overhead_s", c.breakdown.overhead.value},
                         {"peak_memory", std::move(memory)}});
  }
  json["positions"] = std::move(positions);
  return json;
}

void report_simulation(const Plan& plan, const sim::Simulation& simulation, const Cluster& cluster,
                       OutputFormat format) {
  if (format == OutputFormat::kText) {
    print_simulation(std::cout, plan, simulation, cluster);
    return;
  }
  nlohmann::ordered_json json{{"format", "parplan/simulation"}, {"version", 1}};
  json.update(simulation_json(plan, simulation));
  std::cout << dump(json);
  if (!simulation.fits(cluster)) {
    std::cerr << "parplan: " << text_of_misfit(simulation, cluster) << "\n";
  }
}

}  // namespace parplan::tools
