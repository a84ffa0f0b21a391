#include <CLI/Option.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "hw/executor/input_data.hpp"
#include "hw/executor/run_plan.hpp"
#include "hw/world.hpp"
#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/plan_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/describe.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"
#include "tools/interrupts.hpp"
#include "tools/launch/launch_ranks.hpp"
#include "tools/profile/host_facts.hpp"
#include "tools/progress_line.hpp"
#include "tools/text_table.hpp"
#include "tools/units_text.hpp"
#include "traces/step_times.hpp"
#include "traces/trace_file.hpp"

namespace parplan::tools {
namespace {

/// Processes that one host is asked for; also what `profile --ranks` takes.
constexpr int kMostRanksHere = 1024;

class Execute : public Command {
 public:
  explicit Execute(CLI::App& parent)
      : app_(*parent.add_subcommand("execute", "Really train a plan and measure it")) {
    app_.footer(
        "Example:\n  parplan execute plan.json --steps 8 --trace measured.json\n"
        "On several hosts: srun parplan execute plan.json ... (or mpirun), one rank per device.");
    add_text(app_, "plan", plan_, "Plan file")->required();
    add_integer(app_, "--steps", steps_, {1, 1'000'000'000},
                "Training steps (default: --epochs of the data set)");
    add_integer(app_, "--epochs", epochs_, {1, 1'000'000},
                "Passes over the data set, instead of --steps");
    add_choice(app_, "--device", device_, {"cpu", "cuda"}, "Where the ranks compute");
    add_integer(app_, "--threads", threads_, {1, 1024}, "Threads per rank");
    add_text(app_, "--trace", trace_, "Write the measured timeline here (Chrome trace JSON)");
    add_integer(app_, "--trace-steps", trace_steps_, {1, 10'000},
                "How many of the last steps to trace");
    add_number(app_, "--timeout", timeout_s_, NumberRange::between(0.001, 1e6),
               "Longest wait for another rank, seconds");
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    if (trace_.empty() && app_.count("--trace-steps") > 0) {
      throw InputError("--trace-steps " + std::to_string(trace_steps_) +
                       ": no trace is written; say where to with --trace, or leave this out");
    }
    if (steps_ && app_.count("--epochs") > 0) {
      throw InputError("--steps " + std::to_string(*steps_) + " with --epochs " +
                       std::to_string(epochs_) + ": give one of them; both say how long to train");
    }
    if (!trace_.empty()) {
      const std::vector<InputFile> inputs{{"the plan", plan_}};
      check_output("--trace", trace_, inputs);
    }
    const Plan plan = load_plan(plan_);
    check_can_run(plan);
    const int ranks = plan.layout.ranks();
    hw::WorldOptions options;
    options.wait.timeout = std::chrono::duration<double>(timeout_s_);
    options.threads_per_rank = threads_;
    watch_interrupts(!hw::launched_by_mpi());
    if (hw::launched_by_mpi()) {
      auto world = hw::open_mpi_world(options);
      if (const auto* none = std::get_if<hw::Unavailable>(&world)) throw HwError(none->reason);
      return train(*std::get<std::unique_ptr<hw::World>>(world), plan);
    }
    if (ranks > kMostRanksHere) {
      throw InputError(plan_ + ": this host is not asked to start " + std::to_string(ranks) +
                       " ranks, " + std::to_string(kMostRanksHere) +
                       " at most; start them with the cluster's launcher: srun parplan execute "
                       "..., or plan for fewer");
    }
    check_fits_here(plan);
    if (ranks == 1) return train(*hw::open_single_world(options), plan);
    return launch_ranks(ranks, arguments());
  }

 private:
  /// A plan for something else is refused here, before any rank starts.
  void check_can_run(const Plan& plan) const {
    if (device_ == "cuda") {
      throw InputError("--device cuda: this build has no CUDA backend; use --device cpu");
    }
    if (plan.stack.target != "parplan") {
      throw InputError(plan_ + ": the plan is for " + quoted_name(plan.stack.target) +
                       " and can only be simulated; plan for the target parplan to execute it");
    }
    if (!trace_.empty() && plan.workload.data.kind == DataKind::kTokenFile) {
      const std::vector<InputFile> inputs{{"the plan's data", plan.workload.data.path}};
      check_output("--trace", trace_, inputs);
    }
    hw::check_token_data(plan.model, plan.workload);
    if (hw::launched_rank().value_or(0) == 0) hw::check_token_ids(plan.model, plan.workload);
  }

  /// All ranks start on this host; what they allocate is known to the byte. Beyond the memory the
  /// system would end some process, not necessarily one of ours.
  void check_fits_here(const Plan& plan) const {
    const Program program = lower(plan);
    const std::int64_t ranks_of_class = std::int64_t{plan.layout.dp} * plan.layout.tp;
    Bytes all;
    for (const RankClass& c : program.classes) {
      all += Bytes{ranks_of_class * replay_memory(c, program.precision).reserved().value};
    }
    if (all > host_memory()) {
      throw InputError(plan_ + ": the tensors of the " + std::to_string(plan.layout.ranks()) +
                       " ranks take " + text_of(all) + ", this host has " + text_of(host_memory()) +
                       "; plan for more microbatches or a smaller model, or spread the ranks over "
                       "hosts with the cluster's launcher: srun parplan execute ...");
    }
  }

  std::vector<std::string> arguments() const {
    std::vector<std::string> words{"execute",   plan_,
                                   "--device",  device_,
                                   "--threads", std::to_string(threads_),
                                   "--timeout", shortest_text(timeout_s_)};
    words.push_back(steps_ ? "--steps" : "--epochs");
    words.push_back(std::to_string(steps_.value_or(epochs_)));
    if (!trace_.empty()) {
      words.push_back("--trace");
      words.push_back(trace_);
      words.push_back("--trace-steps");
      words.push_back(std::to_string(trace_steps_));
    }
    words.push_back("--format");
    words.push_back(format_ == OutputFormat::kJson ? "json" : "text");
    return words;
  }

  int train(hw::World& world, const Plan& plan) {
    hw::RunOptions options;
    options.steps = steps_;
    options.epochs = epochs_;
    options.threads = threads_;
    options.trace_steps = trace_.empty() ? 0 : trace_steps_;
    options.interrupt = &interrupted();
    std::optional<ProgressLine> line;
    if (world.rank() == 0) {
      line.emplace();
      options.progress = [&line](const hw::RunProgress& p) {
        line->update("step " + std::to_string(p.step) + " of " + std::to_string(p.steps) + ", " +
                     text_of(p.step_time));
      };
    }
    hw::RunResult result = hw::run_plan(world, plan, options);
    line.reset();
    const int code = result.interrupted ? 128 + interrupting_signal(world) : kSuccess;
    if (world.rank() == 0) report(plan, result);
    std::cout.flush();  // an mpirun that was told to end may not let the ranks get any further
    world.finish();
    return code;
  }

  /// Collective: the signal that any of the ranks got; all end with the same exit code. Of
  /// different ones the larger, SIGTERM.
  static int interrupting_signal(hw::World& world) {
    int signal = 0;
    for (const std::string& own : world.gather(std::to_string(received_signal()))) {
      signal = std::max(signal, std::stoi(own));
    }
    return std::stoi(world.broadcast(std::to_string(signal)));
  }

  void report(const Plan& plan, hw::RunResult& result) const {
    traces::StepTimes times;
    for (std::size_t i = 0; i < result.step_times.size(); ++i) {
      times[static_cast<std::int32_t>(i)] = result.step_times[i];
    }
    const traces::StepTimes counted = traces::without_warm_up(times);
    const Seconds median = traces::median_step(counted);
    if (format_ == OutputFormat::kJson) {
      print_json(plan, result, median);
    } else {
      print_text(plan, result, median,
                 counted.size() < times.size() ? "median without the first"
                 : times.size() > 1            ? "median"
                                               : "the only step");
    }
    if (!trace_.empty()) {
      result.trace.machine = plan.cluster_name;
      result.trace.device = processor_name();
      result.trace.threads_per_rank = threads_;
      traces::write_trace({std::move(result.trace), plan}, trace_);
      if (format_ == OutputFormat::kText) std::cout << "trace written to " << trace_ << "\n";
    }
    report_divergence(plan, result.losses);
  }

  /// `which`: what the median is of.
  void print_text(const Plan& plan, const hw::RunResult& result, Seconds median,
                  const char* which) const {
    std::cout << describe_model(plan.model, plan.workload) << "\n"
              << "layout     " << to_string(plan.layout) << ", " << plan.layout.ranks()
              << (plan.layout.ranks() == 1 ? " rank\n" : " ranks\n") << "steps      "
              << result.steps << (result.interrupted ? " (interrupted)" : "");
    if (result.epoch.padded > 0) {
      std::cout << ", an epoch pads " << result.epoch.padded << " places";
    }
    if (result.epoch.dropped > 0) {
      std::cout << ", an epoch drops " << result.epoch.dropped << " samples";
    }
    std::cout << "\n";
    if (median.value > 0.0) {
      std::cout << "step time  " << text_of(median) << " (" << which << "), "
                << text_of_count(tokens_per_second(plan.workload, median)) << " positions/s\n";
    }
    if (!result.losses.empty()) {
      std::cout << "loss       " << shortest_text(result.losses.front()) << " -> "
                << shortest_text(result.losses.back()) << "\n";
    }
    print_gradients(plan, result);
    if (plan.expectation && median.value > 0.0) {
      std::cout << "expected   " << text_of(plan.expectation->step_time) << " ("
                << text_of_percent(plan.expectation->step_time / median - 1.0, true)
                << " against measured)\n";
    }
    for (const RankSummary& s : result.summaries) {
      std::cout << "rank " << s.rank << "     tensors " << text_of(s.peak_tensor_bytes)
                << ", process " << text_of(s.peak_process_bytes) << "\n";
    }
  }

  static void print_gradients(const Plan& plan, const hw::RunResult& result) {
    const std::vector<double>& norms = result.gradient_norms;
    if (norms.empty()) return;
    std::cout << "gradient   norm " << shortest_text(norms.front()) << " -> "
              << shortest_text(norms.back());
    if (const auto most = plan.workload.optimizer.max_gradient_norm) {
      const auto larger =
          std::count_if(norms.begin(), norms.end(), [most](double norm) { return norm > *most; });
      std::cout << ", " << larger << " of " << norms.size() << " steps clipped to "
                << shortest_text(*most);
    }
    std::cout << "\n";
    if (result.loss_scales.empty()) return;
    const auto lost =
        std::count_if(norms.begin(), norms.end(), [](double norm) { return !std::isfinite(norm); });
    std::cout << "loss scale " << shortest_text(result.loss_scales.front()) << " -> "
              << shortest_text(result.loss_scales.back()) << ", " << lost << " of " << norms.size()
              << " steps skipped\n";
  }

  /// Numbers that are no longer finite never become so again.
  static void report_divergence(const Plan& plan, const std::vector<double>& losses) {
    const auto lost = std::find_if_not(losses.begin(), losses.end(),
                                       [](double loss) { return std::isfinite(loss); });
    if (lost == losses.end()) return;
    std::cout << std::flush;
    const auto step = lost - losses.begin() + 1;
    std::cerr << "parplan: training diverged: the loss of step " << step << " is not finite";
    if (step > 1) {  // the first comes before any update
      std::cerr << "; plan with a --learning-rate below "
                << shortest_text(plan.workload.optimizer.learning_rate);
    }
    std::cerr << "\n";
  }

  static void print_json(const Plan& plan, const hw::RunResult& result, Seconds median) {
    nlohmann::ordered_json json{{"format", "parplan/run"},
                                {"version", 1},
                                {"layout", to_string(plan.layout)},
                                {"ranks", plan.layout.ranks()},
                                {"steps", result.steps},
                                {"interrupted", result.interrupted},
                                {"step_time_s", median.value},
                                {"losses", numbers_or_null(result.losses)}};
    nlohmann::ordered_json times = nlohmann::ordered_json::array();
    for (const Seconds t : result.step_times) times.push_back(t.value);
    json["step_times_s"] = std::move(times);
    if (!result.gradient_norms.empty()) {
      json["gradient_norms"] = numbers_or_null(result.gradient_norms);
    }
    if (!result.loss_scales.empty()) json["loss_scales"] = result.loss_scales;
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const RankSummary& s : result.summaries) {
      ranks.push_back({{"rank", s.rank},
                       {"peak_tensor_bytes", s.peak_tensor_bytes.value},
                       {"peak_process_bytes", s.peak_process_bytes.value}});
    }
    json["ranks_memory"] = std::move(ranks);
    std::cout << dump(json);
  }

  CLI::App& app_;
  std::string plan_;
  std::optional<std::int64_t> steps_;
  std::int64_t epochs_ = 1;
  std::string device_ = "cpu";
  int threads_ = 1;
  std::string trace_;
  std::int64_t trace_steps_ = 5;
  double timeout_s_ = 60.0;
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_execute(CLI::App& parent) {
  return std::make_unique<Execute>(parent);
}

}  // namespace parplan::tools
