#include "sim/core/model_json.hpp"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "sim/core/enum_name.hpp"
#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/nearest.hpp"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kRoles{
    EnumName<ValueRole>{"tokens", ValueRole::kTokens},
    EnumName<ValueRole>{"features", ValueRole::kFeatures},
    EnumName<ValueRole>{"classes", ValueRole::kClasses},
    EnumName<ValueRole>{"real_target", ValueRole::kRealTarget},
    EnumName<ValueRole>{"activation", ValueRole::kActivation},
    EnumName<ValueRole>{"loss", ValueRole::kLoss},
};
constexpr std::array kPositions{
    EnumName<Positions>{"one", Positions::kOne},
    EnumName<Positions>{"sequence", Positions::kSequence},
    EnumName<Positions>{"source", Positions::kSource},
};
constexpr std::array kDistributions{
    EnumName<Distribution>{"constant", Distribution::kConstant},
    EnumName<Distribution>{"normal", Distribution::kNormal},
    EnumName<Distribution>{"uniform", Distribution::kUniform},
};
constexpr std::array kSplits{
    EnumName<Split>{"none", Split::kNone},
    EnumName<Split>{"rows", Split::kRows},
    EnumName<Split>{"columns", Split::kColumns},
};
constexpr std::array kParallels{
    EnumName<LinearParallel>{"replicated", LinearParallel::kReplicated},
    EnumName<LinearParallel>{"column", LinearParallel::kColumn},
    EnumName<LinearParallel>{"column_gather", LinearParallel::kColumnGather},
    EnumName<LinearParallel>{"row", LinearParallel::kRow},
};
constexpr std::array kActivations{
    EnumName<Activation>{"relu", Activation::kRelu},
    EnumName<Activation>{"gelu_erf", Activation::kGeluErf},
    EnumName<Activation>{"gelu_tanh", Activation::kGeluTanh},
    EnumName<Activation>{"silu", Activation::kSilu},
};

/// Visits the attributes of an op body with their names; one list serves writing and reading.
template <class Body, class Visitor>
void each_attribute(Body& body, Visitor&& visit) {
  using T = std::remove_const_t<Body>;
  if constexpr (std::is_same_v<T, EmbeddingOp> || std::is_same_v<T, CrossEntropyOp>) {
    visit("vocabulary", body.vocabulary);
  } else if constexpr (std::is_same_v<T, PositionEmbeddingOp>) {
    visit("max_positions", body.max_positions);
  } else if constexpr (std::is_same_v<T, LinearOp>) {
    visit("in", body.in);
    visit("out", body.out);
    visit("bias", body.bias);
    visit("parallel", body.parallel);
  } else if constexpr (std::is_same_v<T, ActivationOp>) {
    visit("function", body.function);
    visit("dropout", body.dropout);
  } else if constexpr (std::is_same_v<T, ResidualOp> || std::is_same_v<T, DropoutOp>) {
    visit("dropout", body.dropout);
  } else if constexpr (std::is_same_v<T, LayerNormOp> || std::is_same_v<T, RmsNormOp>) {
    visit("epsilon", body.epsilon);
  } else if constexpr (std::is_same_v<T, RotaryOp>) {
    visit("heads", body.heads);
    visit("head_dim", body.head_dim);
    visit("theta", body.theta);
    visit("scaling", body.scaling);
  } else if constexpr (std::is_same_v<T, AttentionOp>) {
    visit("heads", body.heads);
    visit("kv_heads", body.kv_heads);
    visit("head_dim", body.head_dim);
    visit("causal", body.causal);
    visit("dropout", body.dropout);
  } else {
    static_assert(std::is_same_v<T, SwigluOp> || std::is_same_v<T, SquaredErrorOp>);
  }
}

struct AttributeWriter {
  Json& json;
  void operator()(const char* key, std::int64_t value) const { json[key] = value; }
  void operator()(const char* key, double value) const { json[key] = value; }
  void operator()(const char* key, bool value) const { json[key] = value; }
  void operator()(const char* key, LinearParallel value) const {
    json[key] = name_of<LinearParallel>(value, kParallels);
  }
  void operator()(const char* key, Activation value) const {
    json[key] = name_of<Activation>(value, kActivations);
  }
  void operator()(const char* key, const std::optional<RotaryScaling>& value) const {
    if (!value) return;
    json[key] = {{"factor", value->factor},
                 {"low_frequency_factor", value->low_frequency_factor},
                 {"high_frequency_factor", value->high_frequency_factor},
                 {"original_max_positions", value->original_max_positions}};
  }
};

struct AttributeReader {
  JsonReader& reader;
  void operator()(const char* key, std::int64_t& value) const {
    value = reader.integer<std::int64_t>(key, 1, kMostElements);
  }
  void operator()(const char* key, double& value) const {
    value = reader.number(key, NumberRange::at_least(0.0));
  }
  void operator()(const char* key, bool& value) const { value = reader.boolean(key); }
  void operator()(const char* key, LinearParallel& value) const {
    value = reader.enumeration<LinearParallel>(key, kParallels);
  }
  void operator()(const char* key, Activation& value) const {
    value = reader.enumeration<Activation>(key, kActivations);
  }
  void operator()(const char* key, std::optional<RotaryScaling>& value) const {
    reader.optional_object(key, [&value](JsonReader& r) {
      value = RotaryScaling{};
      value->factor = r.number("factor", NumberRange::above(0));
      value->low_frequency_factor = r.number("low_frequency_factor", NumberRange::above(0));
      value->high_frequency_factor = r.number("high_frequency_factor", NumberRange::above(0));
      if (value->low_frequency_factor >= value->high_frequency_factor) {
        r.require("low_frequency_factor")
            .fail_expected("less than high_frequency_factor, " +
                           shortest_text(value->high_frequency_factor));
      }
      value->original_max_positions = r.number("original_max_positions", NumberRange::above(0));
    });
  }
};

Json op_json(const Model& model, const Op& op) {
  Json json{{"name", op.name}, {"kind", kind_name(op.body)}};
  Json inputs = Json::array();
  for (const ValueId v : op.inputs) inputs.push_back(model.value(v).name);
  json["inputs"] = std::move(inputs);
  json["output"] = model.value(op.output).name;
  if (!op.parameters.empty()) {
    Json parameters = Json::array();
    for (const ParameterId p : op.parameters) parameters.push_back(model.parameter(p).name);
    json["parameters"] = std::move(parameters);
  }
  std::visit([&json](const auto& body) { each_attribute(body, AttributeWriter{json}); }, op.body);
  return json;
}

/// Finds the body whose kind has the name by trying each alternative in turn.
template <std::size_t I = 0>
std::optional<OpBody> body_of_kind(std::string_view kind) {
  if constexpr (I == std::variant_size_v<OpBody>) {
    return std::nullopt;
  } else {
    OpBody body{std::in_place_index<I>};
    if (kind_name(body) == kind) return body;
    return body_of_kind<I + 1>(kind);
  }
}

class ModelReader {
 public:
  explicit ModelReader(JsonReader& reader) : reader_(reader) {}

  Model read() {
    model_.name = reader_.string("name");
    reader_.array("values", [this](JsonReader& r) { read_value(r); });
    reader_.array("parameters", [this](JsonReader& r) { read_parameter(r); });
    reader_.array("layers", [this](JsonReader& r) { read_layer(r); });
    try {
      check_model(model_);
    } catch (const InputError& error) {
      reader_.element().fail(error.what());
    }
    return std::move(model_);
  }

 private:
  void read_value(JsonReader& r) {
    Value value;
    value.name = r.string("name");
    value.role = r.enumeration<ValueRole>("role", kRoles);
    value.positions = r.enumeration<Positions>("positions", kPositions);
    value.features = r.optional_integer<std::int64_t>("features", 1, kMostElements).value_or(1);
    if (!values_.emplace(value.name, ValueId{model_.values.size()}).second) {
      r.require("name").fail("the value " + quoted_name(value.name) + " is declared twice");
    }
    model_.values.push_back(std::move(value));
  }

  void read_parameter(JsonReader& r) {
    Parameter p;
    p.name = r.string("name");
    p.rows = r.integer<std::int64_t>("rows", 1, kMostElements);
    p.columns = r.integer<std::int64_t>("columns", 1, kMostElements);
    p.split = r.optional_enumeration<Split>("split", kSplits).value_or(Split::kNone);
    r.object("initializer", [&p](JsonReader& i) {
      p.initializer.distribution = i.enumeration<Distribution>("distribution", kDistributions);
      p.initializer.mean = i.optional_number("mean").value_or(0.0);
      p.initializer.scale = i.optional_number("scale", NumberRange::at_least(0.0)).value_or(0.0);
    });
    if (!parameters_.emplace(p.name, ParameterId{model_.parameters.size()}).second) {
      r.require("name").fail("the parameter " + quoted_name(p.name) + " is declared twice");
    }
    model_.parameters.push_back(std::move(p));
  }

  void read_layer(JsonReader& r) {
    Layer layer;
    layer.name = r.string("name");
    if (!layers_.insert(layer.name).second) {
      r.require("name").fail("the layer " + quoted_name(layer.name) + " is declared twice");
    }
    ops_of_layer_.clear();
    layer.first = OpId{model_.ops.size()};
    r.array("ops", [this](JsonReader& o) { read_op(o); });
    layer.count = static_cast<std::uint32_t>(model_.ops.size() - layer.first.index);
    model_.layers.push_back(std::move(layer));
  }

  void read_op(JsonReader& r) {
    Op op;
    op.name = r.string("name");
    if (!ops_of_layer_.insert(op.name).second) {
      r.require("name").fail("the op " + quoted_name(op.name) + " is declared twice in its layer");
    }
    const JsonElement kind = r.require("kind");
    auto body = body_of_kind(kind.string());
    if (!body) kind.fail("unknown op kind " + quoted_name(kind.string()) + "; " + known_kinds());
    r.array("inputs", [&](JsonElement e) { op.inputs.push_back(find(values_, e, "value")); });
    op.output = find(values_, r.require("output"), "value");
    r.optional_array("parameters", [&](JsonElement e) {
      op.parameters.push_back(find(parameters_, e, "parameter"));
    });
    std::visit([&r](auto& b) { each_attribute(b, AttributeReader{r}); }, *body);
    op.body = std::move(*body);
    model_.ops.push_back(std::move(op));
  }

  template <class IdType>
  static IdType find(const std::map<std::string, IdType>& known, const JsonElement& element,
                     const std::string& what) {
    const std::string& name = element.string();
    const auto found = known.find(name);
    if (found != known.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [key, id] : known) names.push_back(key);
    element.fail("unknown " + what + " " + quoted_name(name) + did_you_mean(name, names));
  }

  template <std::size_t I = 0>
  static std::string known_kinds() {
    if constexpr (I == std::variant_size_v<OpBody>) {
      return {};
    } else {
      const std::string name(kind_name(OpBody{std::in_place_index<I>}));
      return (I == 0 ? "known are " : ", ") + name + known_kinds<I + 1>();
    }
  }

  JsonReader& reader_;
  Model model_;
  std::map<std::string, ValueId> values_;
  std::map<std::string, ParameterId> parameters_;
  std::set<std::string> layers_;
  std::set<std::string> ops_of_layer_;  ///< of the layer that is being read
};

}  // namespace

Json to_json(const Model& model) {
  Json json{{"name", model.name}};
  Json values = Json::array();
  for (const Value& v : model.values) {
    values.push_back({{"name", v.name},
                      {"role", name_of<ValueRole>(v.role, kRoles)},
                      {"positions", name_of<Positions>(v.positions, kPositions)},
                      {"features", v.features}});
  }
  json["values"] = std::move(values);
  Json parameters = Json::array();
  for (const Parameter& p : model.parameters) {
    parameters.push_back(
        {{"name", p.name},
         {"rows", p.rows},
         {"columns", p.columns},
         {"split", name_of<Split>(p.split, kSplits)},
         {"initializer",
          {{"distribution", name_of<Distribution>(p.initializer.distribution, kDistributions)},
           {"mean", p.initializer.mean},
           {"scale", p.initializer.scale}}}});
  }
  json["parameters"] = std::move(parameters);
  Json layers = Json::array();
  for (const Layer& layer : model.layers) {
    Json ops = Json::array();
    for (std::uint32_t i = 0; i < layer.count; ++i) {
      ops.push_back(op_json(model, model.ops[layer.first.index + i]));
    }
    layers.push_back({{"name", layer.name}, {"ops", std::move(ops)}});
  }
  json["layers"] = std::move(layers);
  return json;
}

Model read_model(JsonReader& reader) { return ModelReader(reader).read(); }

}  // namespace parplan
