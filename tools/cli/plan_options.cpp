#include "tools/cli/plan_options.hpp"

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/core/cluster_json.hpp"
#include "sim/core/cluster_presets.hpp"
#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/hugging_face.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/model_json.hpp"
#include "sim/core/model_presets.hpp"
#include "sim/core/nearest.hpp"
#include "sim/core/plan_json.hpp"

namespace parplan::tools {
namespace {

template <class Presets>
std::vector<std::string> names_of(const Presets& presets) {
  std::vector<std::string> names;
  for (const auto& preset : presets) names.emplace_back(preset.name);
  return names;
}

[[noreturn]] void unknown(const std::string& option, const std::string& what,
                          const std::string& kinds, const std::vector<std::string>& presets) {
  throw InputError(option + " '" + what + "': no preset and no file of that name" +
                   did_you_mean(what, presets) + " (give " + kinds +
                   "; 'parplan presets' lists what is known)");
}

}  // namespace

void add_format_option(CLI::App& app, OutputFormat& format) {
  app.add_option_function<std::string>(
         "--format",
         [&format](const std::string& text) {
           format = text == "json" ? OutputFormat::kJson : OutputFormat::kText;
         },
         "How to print the result: text or json")
      ->check(CLI::IsMember({"text", "json"}));
}

void add_plan_options(CLI::App& app, PlanOptions& o) {
  app.add_option("--model", o.model, "Preset, Hugging Face config.json, or model file")->required();
  app.add_option("--cluster", o.cluster, "Preset (dgx-h100, dgx-h100:4) or machine file")
      ->required();
  app.add_option("--global-batch", o.global_batch, "Samples per step over all ranks")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--sequence", o.sequence, "Positions per sample")->check(CLI::PositiveNumber);
  app.add_option("--source-sequence", o.source_sequence, "Positions on an encoder's side")
      ->check(CLI::PositiveNumber);
  app.add_option("--precision", o.precision, "float32 or float64")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->capture_default_str();
  app.add_option("--optimizer", o.optimizer, "adam or adamw")
      ->check(CLI::IsMember({"adam", "adamw"}))
      ->capture_default_str();
  app.add_option("--learning-rate", o.learning_rate, "Of the optimizer")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", o.weight_decay, "Of the optimizer")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--dropout", o.dropout, "Replaces every dropout probability of the model")
      ->check(CLI::Range(0.0, 0.999));
  app.add_option("--data", o.data, "File of token ids to train on (default: synthetic data)");
  app.add_option("--data-width", o.data_width, "Of the ids in --data: uint16 or uint32")
      ->check(CLI::IsMember({"uint16", "uint32"}));
  app.add_option("--samples", o.samples, "Size of the synthetic data set")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Keys initial values, dropout, data and shuffling")
      ->capture_default_str();
  app.add_option("--bucket-bytes", o.bucket_bytes, "Gradients are reduced in buckets of this size")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-o,--output", o.output, "Where to write the plan");
}

Model load_model(const std::string& what, std::optional<double> dropout) {
  if (auto model = make_preset(what, dropout)) return std::move(*model);
  if (!std::filesystem::exists(what)) {
    unknown("--model", what, "a preset, a Hugging Face config.json or a model file",
            names_of(model_presets()));
  }
  const JsonDocument document = JsonDocument::load(what);
  if (is_hugging_face_config(document)) return model_from_hugging_face(document, dropout);
  JsonReader reader(document);
  static_cast<void>(expect_format(reader, "parplan/model", 1, 1));
  Model model = read_model(reader);
  reader.finish();
  if (dropout) {
    throw InputError("--dropout changes presets and config.json only; set it in " + what);
  }
  return model;
}

Cluster load_cluster_argument(const std::string& what) {
  const std::size_t colon = what.rfind(':');
  const std::string name = what.substr(0, colon);
  int nodes = 1;
  if (colon != std::string::npos) {
    try {
      nodes = std::stoi(what.substr(colon + 1));
    } catch (const std::exception&) {
      nodes = 0;
    }
  }
  if (make_cluster_preset(name)) {
    if (nodes < 1) throw InputError("--cluster " + what + ": needs a node count after the colon");
    return *make_cluster_preset(name, nodes);
  }
  if (!std::filesystem::exists(what)) {
    unknown("--cluster", what, "a preset or a machine file; 'parplan profile' writes one",
            names_of(cluster_presets()));
  }
  return load_cluster(what);
}

Workload make_workload(const PlanOptions& o, const std::string& model) {
  Workload w;
  for (const ModelPreset& preset : model_presets()) {
    if (preset.name != model) continue;
    w.sequence = preset.sequence;
    w.source_sequence = preset.source_sequence;
  }
  if (o.sequence) w.sequence = *o.sequence;
  if (o.source_sequence) {
    w.source_sequence = *o.source_sequence;
  } else if (o.sequence && w.source_sequence > 1) {
    w.source_sequence = *o.sequence;
  }
  w.global_batch = o.global_batch;
  w.precision = o.precision == "float64" ? DType::kFloat64 : DType::kFloat32;
  w.optimizer.kind = o.optimizer == "adamw" ? OptimizerKind::kAdamW : OptimizerKind::kAdam;
  w.optimizer.learning_rate = o.learning_rate;
  w.optimizer.weight_decay = o.weight_decay;
  w.seed = o.seed;
  w.data.samples = o.samples;
  if (!o.data.empty()) {
    w.data.kind = DataKind::kTokenFile;
    w.data.path = o.data;
    w.data.width = o.data_width == "uint32" ? TokenWidth::kUint32 : TokenWidth::kUint16;
  }
  check_workload(w);
  return w;
}

Stack make_stack(const PlanOptions& o) {
  Stack stack;
  stack.bucket_bytes = Bytes{o.bucket_bytes};
  return stack;
}

Plan make_plan(const PlanOptions& o, const Model& model, const Workload& workload,
               const Layout& layout, const Cluster& cluster) {
  Plan plan;
  plan.model = model;
  plan.workload = workload;
  plan.layout = layout;
  plan.stack = make_stack(o);
  plan.cluster_name = cluster.name;
  plan.cluster_digest = digest_of(cluster);
  return plan;
}

void write_plan(const Plan& plan, const std::string& path) {
  write_file_atomically(path, dump(to_json(plan)));
}

}  // namespace parplan::tools
