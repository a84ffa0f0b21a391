#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "sim/core/cluster.hpp"
#include "sim/core/model.hpp"
#include "sim/core/plan.hpp"

namespace parplan::tools {

enum class OutputFormat { kText, kJson };

/// `--format text|json`.
void add_format_option(CLI::App& app, OutputFormat& format);

/// `--precision`, as `precision_named` reads it.
void add_precision_option(CLI::App& app, std::string& name, const std::string& help);
DType precision_named(std::string_view name);

/// What `recommend` and `plan` are asked to train, and on what.
struct PlanOptions {
  std::string model;
  std::string cluster;
  std::int64_t global_batch = 0;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> source_sequence;
  std::string precision = "float32";
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  double weight_decay = 0.0;
  std::optional<double> max_gradient_norm;
  std::optional<double> loss_scale;
  std::optional<std::int64_t> loss_scale_interval;
  std::string decay = "constant";
  std::int64_t warmup_steps = 0;
  std::optional<std::int64_t> decay_steps;
  std::optional<double> min_learning_rate;
  std::optional<double> dropout;
  std::string data;                       ///< token file; empty: synthetic
  std::optional<std::string> data_width;  ///< uint16
  std::optional<std::int64_t> samples;    ///< of synthetic data: 10000
  std::uint64_t seed = 1;
  std::int64_t bucket_bytes = 4 << 20;
  std::string output;
};
void add_plan_options(CLI::App& app, PlanOptions& options);

struct Training {
  Model model;
  Workload workload;
};
/// The model (a preset, a Hugging Face config.json or a model file) and what a step of it does.
/// Throws InputError that names close presets, lengths that the model wants or does not have, sizes
/// that cannot be planned, options that would change nothing, and a token file that is broken or
/// does not fit.
Training load_training(const PlanOptions& options);
/// To be asked before the work: throws what `check_output` does about `options.output`.
void check_plan_output(const PlanOptions& options);
/// A preset's name ("dgx-h100", or "dgx-h100:4" for four nodes) or a machine file.
Cluster load_cluster_argument(const std::string& what);
Stack make_stack(const PlanOptions& options);
/// Completes a plan for a layout that has been placed.
Plan make_plan(const PlanOptions& options, const Model& model, const Workload& workload,
               const Layout& layout, const Cluster& cluster);
void write_plan(const Plan& plan, const std::string& path);

}  // namespace parplan::tools
