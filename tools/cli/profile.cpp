#include <unistd.h>

#include <CLI/Option.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "hw/executor/run_plan.hpp"
#include "hw/profile/comm_bench.hpp"
#include "hw/profile/product_memory.hpp"
#include "hw/world.hpp"
#include "sim/core/cluster_json.hpp"
#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/op_work.hpp"
#include "sim/simulate.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/options.hpp"
#include "tools/cli/plan_options.hpp"
#include "tools/interrupts.hpp"
#include "tools/launch/launch_ranks.hpp"
#include "tools/profile/host_facts.hpp"
#include "tools/profile/micro_plans.hpp"
#include "tools/profile/other_load.hpp"
#include "tools/progress_line.hpp"
#include "tools/text_table.hpp"
#include "tools/units_text.hpp"
#include "traces/calibrate.hpp"
#include "traces/statistics.hpp"

namespace parplan::tools {
namespace {

/// Highest rate of a matrix product and highest bandwidth of a copy among the samples.
void set_peaks(Cluster& c, DType precision) {
  double flop_rate = 0.0;
  double bandwidth = 0.0;
  for (const OperationSample& s : c.operations) {
    if (s.dtype != precision || s.median.value <= 0.0) continue;
    flop_rate = std::max(
        flop_rate, flop_of(s.code, s.shape, s.variant.causal) / s.median / FlopPerSecond{1.0});
    // Adam over tens of megabytes streams from memory.
    const bool streams = s.code == OpCode::kAdam && s.shape.columns > 2'000'000;
    if (streams) {
      bandwidth = std::max(bandwidth,
                           traffic_of(s.code, s.shape, s.dtype) / s.median / BytesPerSecond{1.0});
    }
  }
  if (flop_rate > 0.0) c.device.peak[precision] = FlopPerSecond{flop_rate};
  if (bandwidth > 0.0) c.device.memory_bandwidth = BytesPerSecond{bandwidth};
}

/// Latency and bandwidth as one number each, for what the samples do not cover.
void set_link(Cluster& c) {
  c.intra_node.name = "between ranks of this host";
  std::int64_t least = 0;
  for (const TransferSample& t : c.transfers) {
    if (t.kind != CollectiveKind::kSendReceive || t.in_situ || t.median.value <= 0.0) continue;
    if (least == 0 || t.bytes.value < least) {
      least = t.bytes.value;
      c.intra_node.latency = t.median;
    }
    const BytesPerSecond rate = t.bytes / t.median;
    if (t.bytes.value >= (1 << 20) && rate > c.intra_node.bandwidth) c.intra_node.bandwidth = rate;
  }
  c.inter_node = c.intra_node;
  c.inter_node.name = "between hosts (not measured; taken as within a host)";
}

/// A file that the ranks and this process pass results through, gone at the end.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& what)
      : path_((std::filesystem::temp_directory_path() /
               ("parplan-" + what + "-" + std::to_string(getpid()) + ".json"))
                  .string()) {}
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The ranks were ended by a signal to this process.
struct Interrupted {
  int exit_code = 0;
};

class Profile : public Command {
 public:
  explicit Profile(CLI::App& parent)
      : app_(*parent.add_subcommand("profile", "Measure this machine, write a machine file")) {
    app_.footer("Example:\n  parplan profile -o machine.json");
    add_text(app_, "-o,--output", output_, "Where to write the machine file");
    add_integer(app_, "--ranks", ranks_, {1, 1024},
                "Ranks this host shall hold (default: its cores)");
    add_precision_option(app_, precision_, "Of what is measured");
    add_text(app_, "--name", name_, "Name of the machine in plans and reports");
    app_.add_flag("--quick", quick_, "Fewer and smaller runs, about a quarter of the time");
    app_.add_option("--as-ranks", as_ranks_, "Internal: measure as one of several ranks")
        ->group("");
    app_.add_option("--known", known_, "Internal: what fewer ranks have measured")->group("");
    add_format_option(app_, format_);
  }

  CLI::App& app() override { return app_; }

  int run() override {
    if (!as_ranks_.empty()) return run_as_rank();
    check_output("--output", output_, {});
    try {
      return measure();
    } catch (const Interrupted& signal) {
      std::cerr << "parplan: interrupted; no machine file was written\n";
      return signal.exit_code;
    }
  }

 private:
  int measure() {
    const OtherLoad load;
    const int ranks = ranks_.value_or(host_cores());
    Cluster cluster = base(ranks);
    {
      const auto world = hw::open_single_world();
      measure_process(*world, cluster.device, cluster.device.process_bytes);
      measure_operations(*world, cluster);
      world->finish();
    }
    const int with_cores = std::min(ranks, host_cores());
    if (with_cores > 1) merge(cluster, measured_by_ranks(with_cores));
    if (ranks > with_cores) {
      // These compare what they see with what is known so far.
      const ScratchFile known("known");
      write_file_atomically(known.path(), dump(to_json(cluster)));
      const Cluster shared = measured_by_ranks(ranks, {"--known", known.path()});
      cluster.core_sharing_slowdown = shared.core_sharing_slowdown;
      merge(cluster, shared);
    }
    set_peaks(cluster, precision());
    set_link(cluster);
    write_file_atomically(output_, dump(to_json(cluster)));
    print(cluster);
    warn_of(load.cores());
    return kSuccess;
  }

  /// What others do on the machine makes everything that is measured longer, by an amount that no
  /// later calibration knows of.
  static void warn_of(double others) {
    constexpr double kQuiet = 0.05;  // of all cores
    if (others < kQuiet * host_cores()) return;
    std::array<char, 160> text{};
    std::snprintf(
        text.data(), text.size(),
        "parplan: other programs had %.1f of the %d cores meanwhile; what was measured is "
        "too slow, profile again on a quiet machine\n",
        others, host_cores());
    std::cout << std::flush;
    std::cerr << text.data();
  }

  DType precision() const { return precision_named(precision_); }

  Cluster base(int ranks) const {
    Cluster c;
    c.name = name_.empty() ? host_name() : name_;
    c.measured = true;
    c.devices_per_node = ranks;
    c.cores_per_node = host_cores();
    c.device.name = processor_name();
    c.device.memory = Bytes{host_memory().value / ranks};
    c.provenance.date = iso_date();
    c.provenance.host = host_name();
    c.provenance.versions = library_versions();
    c.provenance.command = "parplan profile";
    return c;
  }

  /// Runs plans on all ranks of the world one after the other; the traces are rank 0's to have.
  /// `before` is called ahead of each.
  std::vector<traces::NamedTrace> run_all(hw::World& world, const std::vector<MicroPlan>& plans,
                                          const std::string& what, bool shows,
                                          const std::function<void()>& before = {}) const {
    std::vector<traces::NamedTrace> named;
    std::optional<ProgressLine> line;
    if (shows) line.emplace();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (line) {
        line->update(what + ": " + plans[i].name + " (" + std::to_string(i + 1) + " of " +
                     std::to_string(plans.size()) + ")");
      }
      if (before) before();
      hw::RunOptions options;
      options.steps = plans[i].steps + 1;
      options.trace_steps = plans[i].steps;
      hw::RunResult result = hw::run_plan(world, plans[i].plan, options);
      if (world.rank() != 0) continue;
      named.push_back({plans[i].name, {std::move(result.trace), plans[i].plan}});
    }
    return named;
  }

  /// Samples of all operations while every rank of `world` runs the same plan by itself: nothing is
  /// reduced, since operations between long transfers find their data gone from the caches.
  void measure_operations(hw::World& world, Cluster& cluster) const {
    std::vector<MicroPlan> plans = operation_plans(precision());
    if (quick_) {
      constexpr double kMostWork = 1.5e9;  // the others take four fifths of the time
      std::erase_if(plans, [](const MicroPlan& p) { return p.work() > kMostWork; });
    }
    const auto alone = hw::open_single_world();
    const int ranks = world.size();
    const std::vector<traces::NamedTrace> named =
        run_all(*alone, plans, ranks == 1 ? "1 rank" : std::to_string(ranks) + " ranks",
                world.rank() == 0, [&world] { world.barrier(); });
    const std::vector<traces::NamedTrace> clipping =
        run_all(*alone, clipping_plans(precision()), "gradient norms", world.rank() == 0,
                [&world] { world.barrier(); });
    alone->finish();
    if (world.rank() != 0) return;
    Cluster fitted = cluster;
    fitted.operations.clear();
    fitted = traces::calibrate(fitted, named);
    Cluster norms = cluster;
    norms.operations.clear();
    for (const OperationSample& s : traces::calibrate(norms, clipping).operations) {
      if (s.code == OpCode::kGradientNorm) fitted.operations.push_back(s);
    }
    for (OperationSample& s : fitted.operations) s.busy_ranks = ranks;
    cluster.operations = std::move(fitted.operations);
    cluster.device = std::move(fitted.device);
  }

  /// Adds what all-reduces of gradients take in steps; compared with the benchmark's.
  void measure_reductions(hw::World& world, Cluster& cluster) const {
    const std::vector<traces::NamedTrace> named =
        run_all(world, reduction_plans(precision(), world.size()), "reductions", world.rank() == 0);
    if (world.rank() == 0) cluster.transfers = traces::calibrate(cluster, named).transfers;
  }

  /// How much longer steps of ranks that share cores take than predicted from what ranks with cores
  /// of their own have measured (`known_`) and from the collectives of all (`shared`): the median
  /// over the small plans, each by its median step.
  double measure_core_sharing(hw::World& world, const Cluster& shared) const {
    constexpr std::int64_t kMostRows = 512;  // of one rank
    constexpr std::int64_t kLeastSteps = 20;
    Cluster known = load_cluster(known_);
    known.transfers.insert(known.transfers.end(), shared.transfers.begin(), shared.transfers.end());
    const sim::CostModel costs(known);
    std::vector<MicroPlan> plans = reduction_plans(precision(), world.size());
    std::erase_if(plans, [&](const MicroPlan& p) {
      return p.plan.workload.global_batch * p.plan.workload.sequence > kMostRows * world.size();
    });
    std::vector<double> ratios;
    for (const MicroPlan& micro : plans) {
      const Plan& plan = micro.plan;
      hw::RunOptions options;
      options.steps = std::max(micro.steps, kLeastSteps) + 1;
      const hw::RunResult result = hw::run_plan(world, plan, options);
      if (world.rank() != 0) continue;
      std::vector<double> seconds;
      for (const Seconds t : result.step_times) seconds.push_back(t.value);
      seconds.erase(seconds.begin());
      const double predicted =
          sim::simulate(plan, lower(plan), costs, {.trace = false}).step_time.value;
      if (predicted > 0.0) ratios.push_back(traces::median_of(seconds) / predicted);
    }
    return ratios.empty() ? 1.0 : std::max(1.0, traces::median_of(ratios));
  }

  /// Sets product_bytes and, as `bare`, what a rank's process holds beyond what a simulation with
  /// an empty process says. Runs the smallest plan; to be asked of a process that has run nothing
  /// yet, since later runs find what earlier ones left behind.
  void measure_process(hw::World& world, DeviceSpec& device, Bytes& bare) const {
    const Plan plan = reduction_plans(precision(), world.size()).front().plan;
    hw::RunOptions options;
    options.steps = 2;
    const hw::RunResult result = hw::run_plan(world, plan, options);
    if (state_type(precision()) == DType::kFloat32) {
      device.product_bytes = hw::measure_product_bytes();
    }
    Cluster empty;  // times do not matter
    empty.device.peak[precision()] = FlopPerSecond{1e12};
    empty.device.product_bytes = device.product_bytes;
    const Bytes predicted = sim::simulate(plan, empty).classes.front().memory.process;
    bare = Bytes{};
    for (const RankSummary& s : result.summaries) {
      bare = std::max(bare, s.peak_process_bytes - predicted);
    }
  }

  int run_as_rank() {
    auto opened = hw::open_mpi_world();
    if (const auto* none = std::get_if<hw::Unavailable>(&opened)) throw HwError(none->reason);
    hw::World& world = *std::get<std::unique_ptr<hw::World>>(opened);
    Cluster cluster = base(world.size());
    // Before anything else has left its memory behind.
    measure_process(world, cluster.device, cluster.device.transport_bytes);
    hw::CommBenchOptions options;
    options.bytes = hw::default_comm_sizes();
    if (quick_) options.time_per_point = Seconds{0.01};
    const bool cores_are_shared = world.size() > host_cores();
    options.own_cores = !cores_are_shared;
    if (cores_are_shared) options.least_ranks = host_cores() + 1;
    cluster.transfers = hw::measure_communication(world, options);
    cluster.intra_node.half_duplex = hw::directions_share_link(world, 1 << 20);
    // Last, so that reductions in steps are compared with the benchmark's. Of ranks that share a
    // core only whole steps tell something: an operation may contain another rank's turn.
    if (cores_are_shared) {
      cluster.core_sharing_slowdown = measure_core_sharing(world, cluster);
    } else {
      measure_reductions(world, cluster);
      measure_operations(world, cluster);
    }
    if (world.rank() == 0) write_file_atomically(as_ranks_, dump(to_json(cluster)));
    world.finish();
    return kSuccess;
  }

  Cluster measured_by_ranks(int ranks, const std::vector<std::string>& more = {}) const {
    const ScratchFile part("ranks");
    std::vector<std::string> words{"profile",  "--as-ranks", part.path(),          "--precision",
                                   precision_, "--ranks",    std::to_string(ranks)};
    if (quick_) words.push_back("--quick");
    words.insert(words.end(), more.begin(), more.end());
    const int code = launch_ranks(ranks, words);
    if (is_interrupt_code(code)) throw Interrupted{code};
    if (code != 0) {
      throw HwError("measuring with " + std::to_string(ranks) + " ranks failed (exit code " +
                    std::to_string(code) + ")");
    }
    return load_cluster(part.path());
  }

  static void merge(Cluster& cluster, const Cluster& ranks) {
    cluster.operations.insert(cluster.operations.end(), ranks.operations.begin(),
                              ranks.operations.end());
    // Of those with fewest ranks, who have cores of their own.
    if (cluster.transfers.empty()) cluster.intra_node.half_duplex = ranks.intra_node.half_duplex;
    cluster.transfers.insert(cluster.transfers.end(), ranks.transfers.begin(),
                             ranks.transfers.end());
    cluster.device.transport_bytes =
        std::max(cluster.device.transport_bytes,
                 ranks.device.transport_bytes - cluster.device.process_bytes);
  }

  void print(const Cluster& c) const {
    if (format_ == OutputFormat::kJson) {
      std::cout << dump(to_json(c));
      return;
    }
    std::cout << c.name << ": " << c.device.name << ", " << c.cores_per_node << " cores, "
              << text_of(host_memory()) << "\n";
    for (const auto& [dtype, rate] : c.device.peak) {
      std::cout << "fastest " << name_of(dtype) << " product  " << text_of_rate(rate.value, "FLOP")
                << " per rank\n";
    }
    std::cout << "memory bandwidth      " << text_of_rate(c.device.memory_bandwidth.value, "B")
              << " per rank\n"
              << "overhead              " << text_of(c.device.operation_overhead)
              << " per operation, " << text_of(c.device.step_overhead) << " per step\n";
    if (!c.transfers.empty()) {
      std::cout << "link                  " << text_of(c.intra_node.latency) << ", "
                << text_of_rate(c.intra_node.bandwidth.value, "B") << "\n";
    }
    if (c.core_sharing_slowdown > 1.0) {
      std::cout << "sharing cores         " << text_of_percent(c.core_sharing_slowdown - 1.0)
                << " beyond fair turns\n";
    }
    std::cout << c.operations.size() << " operation and " << c.transfers.size()
              << " transfer samples written to " << output_ << "\n";
  }

  CLI::App& app_;
  std::string output_ = "machine.json";
  std::optional<int> ranks_;
  std::string precision_ = "float32";
  std::string name_;
  bool quick_ = false;
  std::string as_ranks_;
  std::string known_;
  OutputFormat format_ = OutputFormat::kText;
};

}  // namespace

std::unique_ptr<Command> make_profile(CLI::App& parent) {
  return std::make_unique<Profile>(parent);
}

}  // namespace parplan::tools
