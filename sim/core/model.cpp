#include "sim/core/model.hpp"

#include <array>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"

namespace parplan {

std::string_view kind_name(const OpBody& body) {
  static constexpr std::array<std::string_view, std::variant_size_v<OpBody>> kNames{
      "embedding",     "position_embedding", "linear",   "activation", "swiglu",    "residual",
      "dropout",       "layer_norm",         "rms_norm", "rotary",     "attention", "cross_entropy",
      "squared_error",
  };
  return kNames[body.index()];
}

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& p : parameters) count += p.elements();
  return count;
}

std::vector<LayerId> layer_of_ops(const Model& model) {
  std::vector<LayerId> result(model.ops.size());
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    for (std::uint32_t i = 0; i < layer.count; ++i) result[layer.first.index + i] = LayerId{l};
  }
  return result;
}

std::vector<std::optional<OpId>> producer_of_values(const Model& model) {
  std::vector<std::optional<OpId>> result(model.values.size());
  for (std::size_t i = 0; i < model.ops.size(); ++i) {
    result[model.ops[i].output.index] = OpId{i};
  }
  return result;
}

namespace {

/// Checks one op against its inputs, output and parameters.
class OpChecker {
 public:
  OpChecker(const Model& model, const Op& op, std::string where)
      : model_(model), op_(op), where_(std::move(where)) {}

  void check() const {
    std::visit([this](const auto& body) { check_body(body); }, op_.body);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError(where_ + ": " + what); }
  void require(bool condition, const std::string& what) const {
    if (!condition) fail(what);
  }
  const Value& input(std::size_t i) const { return model_.value(op_.inputs[i]); }
  const Value& output() const { return model_.value(op_.output); }

  void counts(std::size_t inputs, std::size_t least_parameters, std::size_t most_parameters) const {
    require(op_.inputs.size() == inputs, "needs " + std::to_string(inputs) + " inputs, has " +
                                             std::to_string(op_.inputs.size()));
    require(op_.parameters.size() >= least_parameters && op_.parameters.size() <= most_parameters,
            "has " + std::to_string(op_.parameters.size()) + " parameters, needs " +
                std::to_string(least_parameters));
  }
  void parameter_shape(std::size_t i, std::int64_t rows, std::int64_t columns) const {
    const Parameter& p = model_.parameter(op_.parameters[i]);
    require(p.rows == rows && p.columns == columns,
            "parameter " + quoted_name(p.name) + " is " + std::to_string(p.rows) + " x " +
                std::to_string(p.columns) + ", needs " + std::to_string(rows) + " x " +
                std::to_string(columns));
  }
  void real_input(std::size_t i) const {
    const ValueRole role = input(i).role;
    require(role == ValueRole::kActivation || role == ValueRole::kFeatures,
            "input " + quoted_name(input(i).name) + " must be an activation or features");
  }
  void features(const Value& value, std::int64_t expected) const {
    require(value.features == expected, quoted_name(value.name) + " has " +
                                            std::to_string(value.features) + " features, needs " +
                                            std::to_string(expected));
  }
  void same_positions(std::size_t i) const {
    require(input(i).positions == output().positions,
            quoted_name(input(i).name) + " and the output differ in positions");
  }
  /// One or two real inputs of the output's shape.
  void elementwise(std::size_t inputs) const {
    counts(inputs, 0, 0);
    for (std::size_t i = 0; i < inputs; ++i) {
      real_input(i);
      features(input(i), output().features);
      same_positions(i);
    }
  }
  void probability(double p) const {
    require(p >= 0.0 && p < 1.0, "dropout must lie in [0, 1), is " + shortest_text(p));
  }

  void check_body(const EmbeddingOp& body) const {
    counts(1, 1, 1);
    require(input(0).role == ValueRole::kTokens,
            "input " + quoted_name(input(0).name) + " must be tokens");
    require(body.vocabulary > 0, "vocabulary must be positive");
    parameter_shape(0, body.vocabulary, output().features);
    same_positions(0);
  }
  void check_body(const PositionEmbeddingOp& body) const {
    counts(1, 1, 1);
    real_input(0);
    features(input(0), output().features);
    same_positions(0);
    parameter_shape(0, body.max_positions, output().features);
  }
  void check_body(const LinearOp& body) const {
    counts(1, body.bias ? 2 : 1, body.bias ? 2 : 1);
    real_input(0);
    features(input(0), body.in);
    features(output(), body.out);
    same_positions(0);
    parameter_shape(0, body.out, body.in);
    if (body.bias) parameter_shape(1, body.out, 1);
  }
  void check_body(const ActivationOp& body) const {
    elementwise(1);
    probability(body.dropout);
  }
  void check_body(const SwigluOp&) const {
    elementwise(2);
    distinct_inputs();
  }
  /// Backward writes one gradient per input in one pass, which needs different inputs.
  void distinct_inputs() const {
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        require(op_.inputs[i] != op_.inputs[j], quoted_name(input(i).name) + " is given twice");
      }
    }
  }
  void check_body(const ResidualOp& body) const {
    elementwise(2);
    distinct_inputs();
    probability(body.dropout);
  }
  void check_body(const DropoutOp& body) const {
    elementwise(1);
    probability(body.dropout);
  }
  void check_body(const LayerNormOp&) const { norm(2); }
  void check_body(const RmsNormOp&) const { norm(1); }
  void norm(std::size_t parameters) const {
    counts(1, parameters, parameters);
    real_input(0);
    features(input(0), output().features);
    same_positions(0);
    for (std::size_t i = 0; i < parameters; ++i) parameter_shape(i, output().features, 1);
  }
  void check_body(const RotaryOp& body) const {
    elementwise(1);
    require(body.heads > 0 && body.head_dim > 0 && body.head_dim % 2 == 0,
            "heads must be positive and head_dim even");
    features(input(0), body.heads * body.head_dim);
  }
  void check_body(const AttentionOp& body) const {
    counts(3, 0, 0);
    distinct_inputs();
    for (std::size_t i = 0; i < 3; ++i) real_input(i);
    require(
        body.heads > 0 && body.kv_heads > 0 && body.head_dim > 0 && body.heads % body.kv_heads == 0,
        "heads must be a multiple of kv_heads, both positive");
    features(input(0), body.heads * body.head_dim);
    features(input(1), body.kv_heads * body.head_dim);
    features(input(2), body.kv_heads * body.head_dim);
    features(output(), body.heads * body.head_dim);
    same_positions(0);
    require(input(1).positions == input(2).positions, "keys and values differ in positions");
    require(!body.causal || input(0).positions == input(1).positions,
            "causal attention needs queries and keys over the same positions");
    probability(body.dropout);
  }
  void check_body(const CrossEntropyOp& body) const {
    counts(2, 0, 0);
    real_input(0);
    features(input(0), body.vocabulary);
    require(input(1).role == ValueRole::kClasses,
            "target " + quoted_name(input(1).name) + " must hold classes");
    require(input(0).positions == input(1).positions, "logits and classes differ in positions");
    require(output().role == ValueRole::kLoss, "a cross-entropy produces the loss");
  }
  void check_body(const SquaredErrorOp&) const {
    counts(2, 0, 0);
    real_input(0);
    require(input(1).role == ValueRole::kRealTarget,
            "target " + quoted_name(input(1).name) + " must be a real target");
    features(input(1), input(0).features);
    require(input(0).positions == input(1).positions, "prediction and target differ in positions");
    require(output().role == ValueRole::kLoss, "a squared error produces the loss");
  }

  const Model& model_;
  const Op& op_;
  std::string where_;
};

[[noreturn]] void fail(const Model& model, const std::string& what) {
  throw InputError("model " + quoted_name(model.name) + ": " + what);
}

std::string too_many(std::size_t count, const std::string& what, std::size_t most) {
  return std::to_string(count) + " " + what + ", more than the " + std::to_string(most) +
         " that can be planned";
}

void check_parameters(const Model& model) {
  for (const Parameter& p : model.parameters) {
    if (p.rows < 1 || p.columns < 1 || p.rows > kMostElements / p.columns) {
      fail(model, "parameter " + quoted_name(p.name) + " has " + std::to_string(p.rows) + " x " +
                      std::to_string(p.columns) + " elements, which are not between 1 and the " +
                      std::to_string(kMostElements) + " that can be planned");
    }
  }
}

void check_layers(const Model& model) {
  if (model.layers.size() > kMostLayers) {
    fail(model, too_many(model.layers.size(), "layers", kMostLayers));
  }
  std::uint32_t next = 0;
  for (const Layer& layer : model.layers) {
    if (layer.first.index != next || layer.count == 0) {
      throw InputError("model " + quoted_name(model.name) + ": layer " + quoted_name(layer.name) +
                       " must start at op " + std::to_string(next) + " and hold at least one op");
    }
    if (layer.count > kMostOpsPerLayer) {
      fail(model, "layer " + quoted_name(layer.name) + " has " +
                      too_many(layer.count, "operations", kMostOpsPerLayer));
    }
    next += layer.count;
  }
  if (next != model.ops.size() || model.ops.empty()) {
    throw InputError("model " + quoted_name(model.name) + ": the layers hold " +
                     std::to_string(next) + " of " + std::to_string(model.ops.size()) +
                     " ops; they must hold all");
  }
}

}  // namespace

void check_model(const Model& model) {
  check_layers(model);
  check_parameters(model);
  const std::vector<LayerId> layers = layer_of_ops(model);
  std::vector<bool> known(model.values.size());
  for (std::size_t v = 0; v < model.values.size(); ++v) {
    const ValueRole role = model.values[v].role;
    known[v] = role != ValueRole::kActivation && role != ValueRole::kLoss;
    if (model.values[v].features < 1) {
      throw InputError("model " + quoted_name(model.name) + ": value " +
                       quoted_name(model.values[v].name) + " has no features");
    }
  }
  for (std::size_t i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[i];
    const std::string where = "model " + quoted_name(model.name) + ", layer " +
                              quoted_name(model.layers[layers[i].index].name) + ", op " +
                              quoted_name(op.name);
    for (const ValueId input : op.inputs) {
      if (input.index >= known.size() || !known[input.index]) {
        throw InputError(where + ": an input is not produced by an earlier op");
      }
    }
    for (const ParameterId p : op.parameters) {
      if (p.index >= model.parameters.size()) throw InputError(where + ": unknown parameter");
    }
    if (op.output.index >= known.size() || known[op.output.index]) {
      throw InputError(where + ": its output is unknown or already produced");
    }
    OpChecker(model, op, where).check();
    known[op.output.index] = true;
    const bool is_loss = model.value(op.output).role == ValueRole::kLoss;
    if (is_loss != (i + 1 == model.ops.size())) {
      throw InputError(where + ": the last op, and only it, produces the loss");
    }
  }
}

}  // namespace parplan
