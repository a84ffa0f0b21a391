#include "tools/cli/plan_options.hpp"

#include <CLI/Option.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "hw/executor/input_data.hpp"
#include "sim/core/cluster_json.hpp"
#include "sim/core/cluster_presets.hpp"
#include "sim/core/error.hpp"
#include "sim/core/file_io.hpp"
#include "sim/core/hugging_face.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/model_json.hpp"
#include "sim/core/model_presets.hpp"
#include "sim/core/nearest.hpp"
#include "sim/core/op_variant.hpp"
#include "sim/core/plan_json.hpp"
#include "sim/core/sizes.hpp"
#include "tools/cli/options.hpp"

namespace parplan::tools {
namespace {

template <class Presets>
std::vector<std::string> names_of(const Presets& presets) {
  std::vector<std::string> names;
  for (const auto& preset : presets) names.emplace_back(preset.name);
  return names;
}

/// Not of names that no file can have.
bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

[[noreturn]] void unknown(const std::string& option, const std::string& what,
                          const std::string& kinds, const std::vector<std::string>& presets) {
  throw InputError(option + " " + quoted_name(what) + ": no preset and no file of that name" +
                   did_you_mean(what, presets) + " (give " + kinds +
                   "; 'parplan presets' lists what is known)");
}

}  // namespace

void add_format_option(CLI::App& app, OutputFormat& format) {
  app.add_option_function<std::string>(
         "--format",
         [&format](const std::string& text) {
           format = text == "json" ? OutputFormat::kJson : OutputFormat::kText;
           if (text != "json" && text != "text") {
             throw InputError("--format " + quoted_name(text) + ": expected one of text, json");
           }
         },
         "How to print the result")
      ->type_name("{text, json}");
}

void add_precision_option(CLI::App& app, std::string& name, const std::string& help) {
  add_choice(app, "--precision", name, {"float32", "float64", "bfloat16", "float16"}, help);
}

DType precision_named(std::string_view name) {
  for (const DType type : {DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    if (name_of(type) == name) return type;
  }
  return DType::kFloat32;
}

void add_plan_options(CLI::App& app, PlanOptions& o) {
  constexpr IntegerRange kPositions{1, kMostPositions};
  constexpr std::int64_t kMostSteps = 1'000'000'000;
  add_text(app, "--model", o.model, "Preset, Hugging Face config.json, or model file")->required();
  add_text(app, "--cluster", o.cluster, "Preset (dgx-h100, dgx-h100:4) or machine file")
      ->required();
  add_integer(app, "--global-batch", o.global_batch, kPositions, "Samples per step over all ranks")
      ->required();
  add_integer(app, "--sequence", o.sequence, kPositions, "Positions per sample");
  add_integer(app, "--source-sequence", o.source_sequence, kPositions,
              "Positions on an encoder's side (default: those of --sequence)");
  add_precision_option(app, o.precision, "Of weights and activations");
  add_number(app, "--loss-scale", o.loss_scale, NumberRange::above(0),
             "First scale of the loss in float16 (default: 65536)");
  add_integer(app, "--loss-scale-interval", o.loss_scale_interval, {0, kMostSteps},
              "Steps after which it doubles; 0: it never changes (default: 2000)");
  add_choice(app, "--optimizer", o.optimizer, {"adam", "adamw"}, "As PyTorch defines it");
  add_number(app, "--learning-rate", o.learning_rate, NumberRange::at_least(0), "Of the optimizer");
  add_number(app, "--weight-decay", o.weight_decay, NumberRange::at_least(0), "Of the optimizer");
  add_number(app, "--max-gradient-norm", o.max_gradient_norm, NumberRange::above(0),
             "Scales gradients of a larger norm down to it (default: never)");
  add_integer(app, "--warmup-steps", o.warmup_steps, {0, kMostSteps},
              "Steps over which the learning rate grows to the full one");
  add_choice(app, "--decay", o.decay, {"constant", "linear", "cosine"},
             "Of the learning rate after the warm-up");
  add_integer(app, "--decay-steps", o.decay_steps, {1, kMostSteps},
              "Step at which the decay ends, counted from the first");
  add_number(app, "--min-learning-rate", o.min_learning_rate, NumberRange::at_least(0),
             "Where the decay ends (default: 0)");
  add_number(app, "--dropout", o.dropout, NumberRange::between(0.0, 0.999),
             "Replaces every dropout probability of the model");
  add_text(app, "--data", o.data, "File of token ids to train on (default: synthetic data)");
  add_choice(app, "--data-width", o.data_width, {"uint16", "uint32"},
             "Of the ids in --data (default: uint16)");
  add_integer(app, "--samples", o.samples, kPositions,
              "Size of the synthetic data set (default: 10000)");
  add_integer(app, "--seed", o.seed, {0, std::numeric_limits<std::int64_t>::max()},
              "Keys initial values, dropout, data and shuffling");
  add_integer(app, "--bucket-bytes", o.bucket_bytes, {1, kMostBytes.value},
              "Gradients are reduced in buckets of this size");
  add_text(app, "-o,--output", o.output, "Where to write the plan");
}

namespace {

/// A model with what its source says about lengths.
struct LoadedModel {
  Model model;
  const ModelPreset* preset = nullptr;
  std::optional<std::int64_t> max_positions;
};

LoadedModel load_model(const std::string& what, std::optional<double> dropout) {
  if (auto model = make_preset(what, dropout)) {
    LoadedModel loaded{std::move(*model), nullptr, preset_max_positions(what)};
    for (const ModelPreset& preset : model_presets()) {
      if (preset.name == what) loaded.preset = &preset;
    }
    return loaded;
  }
  if (!is_there(what)) {
    unknown("--model", what, "a preset, a Hugging Face config.json or a model file",
            names_of(model_presets()));
  }
  const JsonDocument document = JsonDocument::load(what);
  if (is_hugging_face_config(document)) {
    HuggingFaceModel read = model_from_hugging_face(document, dropout);
    return {std::move(read.model), nullptr, read.max_positions};
  }
  JsonReader reader(document);
  static_cast<void>(expect_format(reader, "parplan/model", 1, 1));
  Model model = read_model(reader);
  reader.finish();
  if (dropout) {
    throw InputError("--dropout changes presets and config.json only; set it in " + what);
  }
  return {std::move(model), nullptr, std::nullopt};
}

bool has_positions(const Model& model, Positions positions) {
  return std::any_of(model.values.begin(), model.values.end(),
                     [&](const Value& v) { return v.positions == positions; });
}

/// The longest sequence, by the file or by learned positions; none: any length.
std::optional<std::int64_t> longest_sequence(const LoadedModel& loaded) {
  std::optional<std::int64_t> longest = loaded.max_positions;
  for (const Op& op : loaded.model.ops) {
    const auto* table = std::get_if<PositionEmbeddingOp>(&op.body);
    if (table == nullptr || loaded.model.value(op.output).positions != Positions::kSequence) {
      continue;
    }
    longest = std::min(longest.value_or(table->max_positions), table->max_positions);
  }
  return longest;
}

/// A length that the model has no use for says that something else was meant.
void refuse_unused_length(const std::string& option, std::optional<std::int64_t> given, bool used,
                          const PlanOptions& o) {
  if (!given || *given == 1 || used) return;
  throw InputError(option + " " + std::to_string(*given) + ": the samples of " + o.model +
                   " have no such positions; leave the option out");
}

void set_lengths(const PlanOptions& o, const LoadedModel& loaded, Workload& w) {
  const bool sequence = has_positions(loaded.model, Positions::kSequence);
  const bool source = has_positions(loaded.model, Positions::kSource);
  refuse_unused_length("--sequence", o.sequence, sequence || source, o);
  refuse_unused_length("--source-sequence", o.source_sequence, source, o);
  const std::optional<std::int64_t> longest = longest_sequence(loaded);
  const std::string allowed =
      longest ? " (the model allows up to " + std::to_string(*longest) + ")" : std::string();
  if (loaded.preset != nullptr) {
    w.sequence = loaded.preset->sequence;
    w.source_sequence = loaded.preset->source_sequence;
  } else if (sequence && !o.sequence) {
    throw InputError("--model " + o.model +
                     " trains on sequences and does not say how long they are; give --sequence" +
                     allowed);
  } else if (source && !o.sequence && !o.source_sequence) {
    throw InputError("--model " + o.model +
                     " has an encoder and does not say how long its samples are; give "
                     "--source-sequence");
  }
  if (o.sequence) w.sequence = *o.sequence;
  if (o.source_sequence) {
    w.source_sequence = *o.source_sequence;
  } else if (o.sequence && source) {
    w.source_sequence = *o.sequence;
  }
  if (longest && w.sequence > *longest) {
    throw InputError("--sequence " + std::to_string(w.sequence) + " is longer than the " +
                     std::to_string(*longest) + " positions of " + o.model + "; give that or less");
  }
}

bool has_dropout(const Model& model) {
  return std::any_of(model.ops.begin(), model.ops.end(),
                     [](const Op& op) { return variant_of(op.body, false).dropout; });
}

void refuse_unused_data_options(const PlanOptions& o) {
  if (!o.data.empty() && o.samples) {
    throw InputError("--samples " + std::to_string(*o.samples) +
                     ": the file of --data says how many there are; leave one of the two out");
  }
  if (o.data.empty() && o.data_width) {
    throw InputError("--data-width " + *o.data_width +
                     ": synthetic data has no file; give it with --data, or leave this out");
  }
}

LearningRateSchedule make_schedule(const PlanOptions& o) {
  LearningRateSchedule schedule;
  schedule.warmup_steps = o.warmup_steps;
  if (o.decay == "constant") {
    if (o.decay_steps || o.min_learning_rate) {
      throw InputError(std::string(o.decay_steps ? "--decay-steps" : "--min-learning-rate") +
                       ": the learning rate stays as it is; add --decay linear or cosine, or leave "
                       "this out");
    }
    return schedule;
  }
  if (!o.decay_steps) {
    throw InputError("--decay " + o.decay + " needs --decay-steps, the step at which it ends");
  }
  schedule.decay = o.decay == "linear" ? Decay::kLinear : Decay::kCosine;
  schedule.decay_steps = *o.decay_steps;
  schedule.min_learning_rate = o.min_learning_rate.value_or(0.0);
  return schedule;
}

void set_loss_scaling(const PlanOptions& o, Workload& w) {
  if (!scales_loss(w.precision) && (o.loss_scale || o.loss_scale_interval)) {
    throw InputError(std::string(o.loss_scale ? "--loss-scale" : "--loss-scale-interval") +
                     ": only --precision float16 scales the loss; leave this out");
  }
  w.loss_scaling.initial = o.loss_scale.value_or(w.loss_scaling.initial);
  w.loss_scaling.growth_interval = o.loss_scale_interval.value_or(w.loss_scaling.growth_interval);
}

Workload make_workload(const PlanOptions& o, const LoadedModel& loaded) {
  Workload w;
  set_lengths(o, loaded, w);
  w.global_batch = o.global_batch;
  w.precision = precision_named(o.precision);
  set_loss_scaling(o, w);
  w.optimizer.kind = o.optimizer == "adamw" ? OptimizerKind::kAdamW : OptimizerKind::kAdam;
  w.optimizer.learning_rate = o.learning_rate;
  w.optimizer.weight_decay = o.weight_decay;
  w.optimizer.schedule = make_schedule(o);
  w.optimizer.max_gradient_norm = o.max_gradient_norm;
  w.seed = o.seed;
  refuse_unused_data_options(o);
  if (o.samples) w.data.samples = *o.samples;
  if (!o.data.empty()) {
    w.data.kind = DataKind::kTokenFile;
    w.data.path = o.data;
    w.data.width = o.data_width == "uint32" ? TokenWidth::kUint32 : TokenWidth::kUint16;
    w.data.tokens = hw::count_tokens(w.data.path, w.data.width, w.sequence);
  }
  check_workload(w);
  check_sizes(loaded.model, w);
  hw::check_token_data(loaded.model, w);
  hw::check_token_ids(loaded.model, w);
  return w;
}

}  // namespace

Training load_training(const PlanOptions& options) {
  LoadedModel loaded = load_model(options.model, options.dropout);
  if (options.dropout.value_or(0.0) > 0.0 && !has_dropout(loaded.model)) {
    throw InputError("--dropout " + shortest_text(*options.dropout) + ": " + options.model +
                     " has no dropout that it could replace; leave the option out");
  }
  const Workload workload = make_workload(options, loaded);
  return {std::move(loaded.model), workload};
}

void check_plan_output(const PlanOptions& o) {
  if (o.output.empty()) return;
  const std::vector<InputFile> inputs{
      {"--model", o.model}, {"--cluster", o.cluster}, {"--data", o.data}};
  check_output("--output", o.output, inputs);
}

Cluster load_cluster_argument(const std::string& what) {
  const std::size_t colon = what.rfind(':');
  const std::string name = what.substr(0, colon);
  if (const auto preset = make_cluster_preset(name)) {
    if (colon == std::string::npos) return *preset;
    const IntegerRange range{1, kMostRanks / preset->devices_per_node};
    const auto nodes = parse_integer(what.substr(colon + 1), range);
    if (!nodes) {
      throw InputError("--cluster " + quoted_name(what) +
                       ": needs a number of nodes between 1 and " + std::to_string(range.max) +
                       " after the colon, as " + name + ":4");
    }
    return *make_cluster_preset(name, static_cast<int>(*nodes));
  }
  if (!is_there(what)) {
    unknown("--cluster", what, "a preset or a machine file; 'parplan profile' writes one",
            names_of(cluster_presets()));
  }
  return load_cluster(what);
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
