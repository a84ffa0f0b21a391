#include "sim/core/plan_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sim/core/enum_name.hpp"
#include "sim/core/error.hpp"
#include "sim/core/json_document.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/model_json.hpp"
#include "sim/core/sizes.hpp"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kPrecisions{
    EnumName<DType>{"float32", DType::kFloat32},
    EnumName<DType>{"float64", DType::kFloat64},
    EnumName<DType>{"bfloat16", DType::kBFloat16},
    EnumName<DType>{"float16", DType::kFloat16},
};
constexpr std::array kOptimizers{
    EnumName<OptimizerKind>{"adam", OptimizerKind::kAdam},
    EnumName<OptimizerKind>{"adamw", OptimizerKind::kAdamW},
};
constexpr std::array kDecays{
    EnumName<Decay>{"constant", Decay::kConstant},
    EnumName<Decay>{"linear", Decay::kLinear},
    EnumName<Decay>{"cosine", Decay::kCosine},
};
constexpr std::array kDataKinds{
    EnumName<DataKind>{"synthetic", DataKind::kSynthetic},
    EnumName<DataKind>{"token_file", DataKind::kTokenFile},
};
constexpr std::array kWidths{
    EnumName<TokenWidth>{"uint16", TokenWidth::kUint16},
    EnumName<TokenWidth>{"uint32", TokenWidth::kUint32},
};
constexpr std::array kRemainders{
    EnumName<Remainder>{"pad", Remainder::kPad},
    EnumName<Remainder>{"drop", Remainder::kDrop},
};

Json optimizer_json(const Optimizer& o) {
  Json json{{"kind", name_of<OptimizerKind>(o.kind, kOptimizers)},
            {"learning_rate", o.learning_rate},
            {"beta1", o.beta1},
            {"beta2", o.beta2},
            {"epsilon", o.epsilon},
            {"weight_decay", o.weight_decay}};
  if (o.max_gradient_norm) json["max_gradient_norm"] = *o.max_gradient_norm;
  if (o.schedule == LearningRateSchedule{}) return json;
  Json& schedule = json["schedule"];
  schedule = {{"decay", name_of<Decay>(o.schedule.decay, kDecays)},
              {"warmup_steps", o.schedule.warmup_steps}};
  if (o.schedule.decay != Decay::kConstant) {
    schedule["decay_steps"] = o.schedule.decay_steps;
    schedule["min_learning_rate"] = o.schedule.min_learning_rate;
  }
  return json;
}

LearningRateSchedule read_schedule(JsonReader& r) {
  LearningRateSchedule schedule;
  schedule.decay = r.enumeration<Decay>("decay", kDecays);
  schedule.warmup_steps = r.integer<std::int64_t>("warmup_steps", 0);
  if (schedule.decay != Decay::kConstant) {
    schedule.decay_steps = r.integer<std::int64_t>("decay_steps", 1);
    schedule.min_learning_rate = r.number("min_learning_rate", NumberRange::at_least(0));
  }
  return schedule;
}

Optimizer read_optimizer(JsonReader& r) {
  Optimizer o;
  o.kind = r.enumeration<OptimizerKind>("kind", kOptimizers);
  o.learning_rate = r.number("learning_rate", NumberRange::at_least(0));
  o.beta1 = r.number("beta1", NumberRange::between(0, 1));
  o.beta2 = r.number("beta2", NumberRange::between(0, 1));
  o.epsilon = r.number("epsilon", NumberRange::above(0));
  o.weight_decay = r.number("weight_decay", NumberRange::at_least(0));
  o.max_gradient_norm = r.optional_number("max_gradient_norm", NumberRange::above(0));
  r.optional_object("schedule", [&o](JsonReader& s) { o.schedule = read_schedule(s); });
  return o;
}

Json data_json(const DataSource& data) {
  Json json{{"kind", name_of<DataKind>(data.kind, kDataKinds)}};
  if (data.kind == DataKind::kTokenFile) {
    json["path"] = data.path;
    json["width"] = name_of<TokenWidth>(data.width, kWidths);
    if (data.tokens) json["tokens"] = *data.tokens;
  } else {
    json["samples"] = data.samples;
  }
  json["shuffle"] = data.shuffle;
  json["remainder"] = name_of<Remainder>(data.remainder, kRemainders);
  return json;
}

DataSource read_data(JsonReader& r) {
  DataSource data;
  data.kind = r.enumeration<DataKind>("kind", kDataKinds);
  if (data.kind == DataKind::kTokenFile) {
    data.path = r.string("path");
    data.width = r.enumeration<TokenWidth>("width", kWidths);
    data.tokens = r.optional_integer<std::int64_t>("tokens", 1);
  } else {
    data.samples = r.integer<std::int64_t>("samples", 1, kMostPositions);
  }
  data.shuffle = r.boolean("shuffle");
  data.remainder = r.enumeration<Remainder>("remainder", kRemainders);
  return data;
}

Json layout_json(const Layout& layout) {
  Json json{{"dp", layout.dp}, {"tp", layout.tp}, {"pp", layout.pp}, {"mp", layout.mp}};
  json["schedule"] = pipeline_schedule_name(layout.schedule);
  json["microbatches"] = layout.microbatches;
  if (!layout.stage_layers.empty()) json["stage_layers"] = layout.stage_layers;
  if (!layout.layer_devices.empty()) json["layer_devices"] = layout.layer_devices;
  return json;
}

std::vector<int> read_counts(JsonReader& r, std::string_view key, int least) {
  std::vector<int> counts;
  r.optional_array(key,
                   [&](JsonElement e) { counts.push_back(e.integer<int>(least, kMostRanks)); });
  return counts;
}

Layout read_layout(JsonReader& r) {
  Layout layout;
  layout.dp = r.integer<int>("dp", 1, kMostRanks);
  layout.tp = r.integer<int>("tp", 1, kMostRanks);
  layout.pp = r.integer<int>("pp", 1, kMostRanks);
  layout.mp = r.integer<int>("mp", 1, kMostRanks);
  const JsonElement schedule = r.require("schedule");
  const auto known = parse_pipeline_schedule(schedule.string());
  if (!known) schedule.fail_expected("\"gpipe\" or \"1f1b\"");
  layout.schedule = *known;
  layout.microbatches = r.integer<int>("microbatches", 1);
  layout.stage_layers = read_counts(r, "stage_layers", 1);
  layout.layer_devices = read_counts(r, "layer_devices", 0);
  return layout;
}

bool is_digest(std::string_view text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// A length that no value of the model has would change nothing but what is reported.
void refuse_unused_lengths(JsonReader& r, const Plan& plan) {
  const auto has = [&values = plan.model.values](Positions positions) {
    return std::any_of(values.begin(), values.end(),
                       [positions](const Value& v) { return v.positions == positions; });
  };
  const auto check = [&r](const char* key, std::int64_t length, bool used) {
    if (used || length == 1) return;
    JsonReader workload = r.object("workload");
    workload.require(key).fail_expected("1, as the model has no such positions");
  };
  const bool source = has(Positions::kSource);
  check("sequence", plan.workload.sequence, source || has(Positions::kSequence));
  check("source_sequence", plan.workload.source_sequence, source);
}

Json training_json(const Plan& plan) {
  Json json;
  json["workload"] = to_json(plan.workload);
  json["layout"] = layout_json(plan.layout);
  json["stack"] = {{"target", plan.stack.target},
                   {"bucket_bytes", plan.stack.bucket_bytes.value},
                   {"overlap_gradient_reduction", plan.stack.overlap_gradient_reduction}};
  json["model"] = to_json(plan.model);
  return json;
}

}  // namespace

Json to_json(const Workload& w) {
  Json json{{"global_batch", w.global_batch},
            {"sequence", w.sequence},
            {"source_sequence", w.source_sequence},
            {"precision", name_of<DType>(w.precision, kPrecisions)}};
  if (scales_loss(w.precision)) {
    json["loss_scaling"] = {{"initial", w.loss_scaling.initial},
                            {"growth_interval", w.loss_scaling.growth_interval}};
  }
  json["optimizer"] = optimizer_json(w.optimizer);
  json["data"] = data_json(w.data);
  json["seed"] = w.seed;
  return json;
}

Workload read_workload(JsonReader& r) {
  Workload w;
  w.global_batch = r.integer<std::int64_t>("global_batch", 1, kMostPositions);
  w.sequence = r.integer<std::int64_t>("sequence", 1, kMostPositions);
  w.source_sequence = r.integer<std::int64_t>("source_sequence", 1, kMostPositions);
  w.precision = r.enumeration<DType>("precision", kPrecisions);
  if (scales_loss(w.precision)) {
    r.optional_object("loss_scaling", [&w](JsonReader& s) {
      w.loss_scaling.initial = s.number("initial", NumberRange::above(0));
      w.loss_scaling.growth_interval = s.integer<std::int64_t>("growth_interval", 0);
    });
  }
  r.object("optimizer", [&w](JsonReader& o) { w.optimizer = read_optimizer(o); });
  r.object("data", [&w](JsonReader& d) { w.data = read_data(d); });
  w.seed = r.integer<std::uint64_t>("seed");
  try {
    check_workload(w);
  } catch (const InputError& error) {
    r.element().fail(error.what());
  }
  return w;
}

Json to_json(const Plan& plan) {
  Json json{{"format", "parplan/plan"}, {"version", 1}};
  json["cluster"] = {{"name", plan.cluster_name}, {"digest", plan.cluster_digest}};
  if (plan.expectation) {
    json["expectation"] = {{"plan_digest", digest_of(plan)},
                           {"step_time_s", plan.expectation->step_time.value},
                           {"peak_memory_bytes", plan.expectation->peak_memory.value}};
  }
  json.update(training_json(plan));
  return json;
}

Plan read_plan(const JsonDocument& document) {
  JsonReader r(document);
  static_cast<void>(expect_format(r, "parplan/plan", 1, 1));
  Plan plan;
  r.object("cluster", [&plan](JsonReader& c) {
    plan.cluster_name = c.string("name");
    const JsonElement digest = c.require("digest");
    plan.cluster_digest = digest.string();
    if (!is_digest(plan.cluster_digest)) digest.fail_expected("16 hexadecimal digits");
  });
  std::string expected_of;
  r.optional_object("expectation", [&](JsonReader& e) {
    expected_of = e.optional_string("plan_digest").value_or("");
    plan.expectation =
        Expectation{e.quantity<Seconds>("step_time_s"), e.quantity<Bytes>("peak_memory_bytes")};
  });
  r.object("workload", [&plan](JsonReader& w) { plan.workload = read_workload(w); });
  r.object("layout", [&plan](JsonReader& l) { plan.layout = read_layout(l); });
  r.object("stack", [&plan](JsonReader& s) {
    plan.stack.target = s.string("target");
    plan.stack.bucket_bytes = s.quantity<Bytes>("bucket_bytes", std::int64_t{1}, kMostBytes.value);
    plan.stack.overlap_gradient_reduction = s.boolean("overlap_gradient_reduction");
  });
  r.object("model", [&plan](JsonReader& m) { plan.model = read_model(m); });
  r.finish();
  refuse_unused_lengths(r, plan);
  try {
    check_sizes(plan.model, plan.workload);
  } catch (const InputError& error) {
    r.element().fail(error.what());
  }
  for (const Refusal& refusal : check_layout(plan.model, plan.workload, plan.layout)) {
    r.require("layout").fail(refusal.reason + "; try " + refusal.suggestion);
  }
  if (plan.expectation && expected_of != digest_of(plan)) plan.expectation.reset();
  return plan;
}

Plan load_plan(const std::filesystem::path& path) { return read_plan(JsonDocument::load(path)); }

std::string digest_of_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digest(16, '0');
  for (int i = 15; i >= 0; --i, hash >>= 4)
    digest[static_cast<std::size_t>(i)] = kDigits[hash & 15];
  return digest;
}

std::string digest_of(const Plan& plan) { return digest_of_text(dump(training_json(plan))); }

}  // namespace parplan
