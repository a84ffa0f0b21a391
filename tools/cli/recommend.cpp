#include <CLI/Option.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "planner/search.hpp"
#include "sim/core/error.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/message_text.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/describe.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"
#include "tools/interrupts.hpp"
#include "tools/progress_line.hpp"
#include "tools/text_table.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

using planner::Candidate;
using planner::SearchResult;

/// Why the fastest layout wins, in one sentence per rival axis.
std::string explain(const SearchResult& result) {
  const sim::Simulation& best = result.best.front().simulation;
  double worst_idle = 0.0;
  double communication = 0.0;
  for (const sim::ClassForecast& c : best.classes) {
    worst_idle = std::max(worst_idle, c.breakdown.bubble / best.step_time);
    communication =
        std::max(communication, (c.breakdown.tensor_communication + c.breakdown.core_communication +
                                 c.breakdown.exposed_communication) /
                                    best.step_time);
  }
  return "the slowest position spends " + text_of_percent(communication) +
         " of the step in communication and at most " + text_of_percent(worst_idle) + " in bubbles";
}

class Recommend : public Command {
 public:
  explicit Recommend(CLI::App& parent)
      : app_(*parent.add_subcommand("recommend", "Search the fastest layout that fits")) {
    app_.footer(
        "Example:\n  parplan recommend --model seed-transformer --cluster machine.json "
        "--global-batch 32 -o plan.json");
    add_plan_options(app_, options_);
    add_integer(app_, "--ranks", ranks_, {1, kMostRanks}, "Use exactly this many ranks");
    add_text(app_, "--pin", pin_, "Fix axes, e.g. tp=2,schedule=1f1b; 'single' is one rank");
    add_integer(app_, "--top", top_, {1, 1000}, "How many layouts to show");
    add_integer(app_, "--threads", threads_, {1, 1024},
                "Threads to search with (default: all cores; more search no faster)");
    add_choice(app_, "--target", target_, {"parplan"},
               "Who shall run the plan; parplan proposes what it can run");
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    check_plan_output(options_);
    const auto [model, workload] = load_training(options_);
    const Cluster cluster = load_cluster_argument(options_.cluster);
    planner::SearchRequest request{
        model, workload, cluster, ranks_, planner::parse_pins(pin_), make_stack(options_)};
    if (ranks_ && *ranks_ > cluster.devices()) {
      throw InputError("--ranks " + std::to_string(*ranks_) + ": " + cluster.name + " has " +
                       std::to_string(cluster.devices()) + " devices");
    }
    request.top = top_;
    request.threads = search_threads();
    watch_interrupts(true);
    const SearchResult result = searched(request);
    if (result.considered == 0) refuse_pins(request);
    if (interrupted()) {
      std::cerr << "parplan: interrupted; " << result.looked_at() << " of " << result.considered
                << " layouts were looked at\n";
    }
    if (result.best.empty()) {
      const bool all_refused = result.refused == result.considered;
      if (interrupted()) {
        std::cerr << "none of them fits\n";
      } else {
        std::cerr << (all_refused ? "no layout can be planned: " : "no layout fits: ")
                  << result.considered << " considered\n";
      }
      print_findings(request, result);
      if (interrupted()) return 128 + received_signal();
      return all_refused ? kBadInput : kNothingFits;
    }
    Plan plan = make_plan(options_, model, request.workload, result.best.front().layout, cluster);
    plan.expectation = Expectation{result.best.front().simulation.step_time,
                                   result.best.front().simulation.peak_memory()};
    if (format_ == OutputFormat::kJson) {
      print_json(plan, result);
    } else {
      print_text(plan, result, cluster);
    }
    if (!options_.output.empty()) {
      write_plan(plan, options_.output);
      if (format_ == OutputFormat::kText)
        std::cout << "\nplan written to " << options_.output << "\n";
    }
    return interrupted() ? 128 + received_signal() : kSuccess;
  }

 private:
  static SearchResult searched(const planner::SearchRequest& request) {
    ProgressLine line;
    return planner::search(
        request,
        [&line](std::int64_t done, std::int64_t total) {
          if (done % 16 == 0 || done == total) {
            line.update("layouts " + std::to_string(done) + " of " + std::to_string(total));
          }
        },
        &interrupted());
  }

  std::string shown_pin() const { return shortened(pin_, 80); }

  /// No layout has the pinned axes, whatever the model.
  [[noreturn]] void refuse_pins(const planner::SearchRequest& request) const {
    const planner::Pins& pins = request.pins;
    if (pins.pp.value_or(1) > 1 && pins.mp.value_or(1) > 1) {
      throw InputError("--pin " + shown_pin() + ": pp and mp exclude each other; pin one of them");
    }
    if (pins.mp.value_or(1) > 1 && pins.microbatches.value_or(1) > 1) {
      throw InputError("--pin " + shown_pin() +
                       ": mp runs one microbatch; leave microbatches out, or pin pp");
    }
    Layout axes;
    axes.dp = pins.dp.value_or(1);
    axes.tp = pins.tp.value_or(1);
    axes.pp = pins.pp.value_or(1);
    axes.mp = pins.mp.value_or(1);
    const int ranks = axes.ranks();
    const bool too_many = ranks > request.cluster.devices();
    const std::vector<Refusal> refusals = check_layout(request.model, request.workload, axes);
    if (!refusals.empty() && !too_many) {
      throw InputError("--pin " + shown_pin() + ": " + refusals.front().reason + " (try " +
                       refusals.front().suggestion + ")");
    }
    const std::string product = "the product of these axes is " + std::to_string(ranks);
    if (ranks_ && !too_many) {
      throw InputError("--pin " + shown_pin() + " with --ranks " + std::to_string(*ranks_) + ": " +
                       product +
                       ", which must divide the number of ranks, and equal it when all are pinned");
    }
    throw InputError("--pin " + shown_pin() + ": " + product + ", " + request.cluster.name +
                     " has " + std::to_string(request.cluster.devices()) + " devices");
  }

  void print_text(const Plan& plan, const SearchResult& result, const Cluster& cluster) const {
    std::cout << describe_model(plan.model, plan.workload) << "\n"
              << result.considered << " layouts: " << result.simulated << " simulated, "
              << result.pruned << " cannot be faster, " << result.cannot_fit << " cannot fit, "
              << result.refused << " break a rule\n\n";
    TextTable table({"layout", "ranks", "step time", "against best", "positions/s", "memory"});
    const Seconds best = result.best.front().simulation.step_time;
    for (const Candidate& c : result.best) {
      table.add({to_string(c.layout), std::to_string(c.layout.ranks()),
                 text_of(c.simulation.step_time),
                 text_of_percent(c.simulation.step_time / best - 1.0, true),
                 text_of_count(tokens_per_second(plan.workload, c.simulation.step_time)),
                 text_of(c.simulation.peak_memory())});
    }
    table.print(std::cout, colour_on_stdout());
    std::cout << "\nrecommended: " << to_string(plan.layout) << "; " << explain(result) << "\n";
    print_dropped(std::cout, "dropped ", result.dropped);
    std::cout << "\n";
    print_simulation(std::cout, plan, result.best.front().simulation, cluster);
  }

  static void print_json(const Plan& plan, const SearchResult& result) {
    nlohmann::ordered_json json{{"format", "parplan/recommendation"}, {"version", 1}};
    json["considered"] = result.considered;
    json["simulated"] = result.simulated;
    json["pruned"] = result.pruned;
    json["cannot_fit"] = result.cannot_fit;
    json["refused"] = result.refused;
    json["interrupted"] = interrupted().load();
    nlohmann::ordered_json layouts = nlohmann::ordered_json::array();
    for (const Candidate& c : result.best) {
      Plan candidate = plan;
      candidate.layout = c.layout;
      layouts.push_back(simulation_json(candidate, c.simulation));
    }
    json["layouts"] = std::move(layouts);
    nlohmann::ordered_json dropped = nlohmann::ordered_json::array();
    for (const planner::Dropped& d : result.dropped) {
      dropped.push_back({{"reason", d.reason}, {"suggestion", d.suggestion}, {"count", d.count}});
    }
    json["dropped"] = std::move(dropped);
    std::cout << dump(json);
  }

  /// The reasons that most layouts have.
  static void print_dropped(std::ostream& out, const std::string& indent,
                            const std::vector<planner::Dropped>& dropped) {
    constexpr std::size_t kMostReasons = 10;
    std::int64_t others = 0;
    for (std::size_t i = 0; i < dropped.size(); ++i) {
      const planner::Dropped& d = dropped[i];
      if (i < kMostReasons) {
        out << indent << d.count << ": " << d.reason << " (try " << d.suggestion << ")\n";
      } else {
        others += d.count;
      }
    }
    if (others > 0) {
      out << indent << others << ": " << dropped.size() - kMostReasons << " more reasons\n";
    }
  }

  /// What was learnt where nothing fits.
  static void print_findings(const planner::SearchRequest& request, const SearchResult& result) {
    print_dropped(std::cerr, "  ", result.dropped);
    if (result.nearest_miss) {
      std::cerr << "  nearest: " << to_string(result.nearest_miss->layout) << " needs "
                << text_of(result.nearest_miss->simulation.peak_memory()) << " per device, "
                << text_of(request.cluster.device.memory) << " there\n";
    }
  }

  int search_threads() const {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    if (threads_.value_or(cores) > cores) {
      std::cerr << "parplan: --threads " << *threads_ << ": more than the " << cores
                << " cores of this host search no faster\n";
    }
    return threads_.value_or(cores);
  }

  CLI::App& app_;
  PlanOptions options_;
  std::optional<int> ranks_;
  std::string pin_;
  int top_ = 5;
  std::optional<int> threads_;
  std::string target_ = "parplan";
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_recommend(CLI::App& parent) {
  return std::make_unique<Recommend>(parent);
}

}  // namespace parplan::tools
