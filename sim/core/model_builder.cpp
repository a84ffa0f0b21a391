#include "sim/core/model_builder.hpp"

#include <utility>

#include "sim/core/error.hpp"

namespace parplan {

ModelBuilder::ModelBuilder(std::string model_name, InitializerSet initializers)
    : initializers_(initializers) {
  model_.name = std::move(model_name);
}

ValueId ModelBuilder::input(std::string name, ValueRole role, Positions positions,
                            std::int64_t features) {
  model_.values.push_back({std::move(name), role, positions, features});
  return ValueId{model_.values.size() - 1};
}

void ModelBuilder::begin_layer(std::string name) {
  model_.layers.push_back({std::move(name), OpId{model_.ops.size()}, 0});
}

ValueId ModelBuilder::append(std::string_view op, OpBody body, std::vector<ValueId> inputs,
                             Value output, std::vector<ParameterId> parameters) {
  ensure(!model_.layers.empty(), "a layer is open before an op is added");
  Layer& layer = model_.layers.back();
  output.name = layer.name + "." + std::string(op);
  model_.values.push_back(std::move(output));
  const ValueId id{model_.values.size() - 1};
  model_.ops.push_back(
      {std::string(op), std::move(body), std::move(inputs), id, std::move(parameters)});
  ++layer.count;
  return id;
}

ParameterId ModelBuilder::parameter(std::string_view op, std::string_view suffix, std::int64_t rows,
                                    std::int64_t columns, const Initializer& initializer,
                                    Split split) {
  std::string name = model_.layers.back().name;
  if (!op.empty() && op != name) name += "." + std::string(op);
  model_.parameters.push_back(
      {name + "." + std::string(suffix), rows, columns, initializer, split});
  return ParameterId{model_.parameters.size() - 1};
}

ParameterId ModelBuilder::find_parameter(std::string_view name) const {
  for (std::size_t i = 0; i < model_.parameters.size(); ++i) {
    if (model_.parameters[i].name == name) return ParameterId{i};
  }
  throw InternalError("no parameter '" + std::string(name) + "' in model '" + model_.name + "'");
}

ValueId ModelBuilder::embedding(std::string_view op, ValueId tokens, std::int64_t vocabulary,
                                std::int64_t features) {
  const ParameterId table =
      parameter(op, "weight", vocabulary, features, initializers_.embedding, Split::kRows);
  const Positions positions = model_.value(tokens).positions;
  return append(op, EmbeddingOp{vocabulary}, {tokens},
                {{}, ValueRole::kActivation, positions, features}, {table});
}

ValueId ModelBuilder::position_embedding(std::string_view op, ValueId x,
                                         std::int64_t max_positions) {
  const Value out{{}, ValueRole::kActivation, model_.value(x).positions, model_.value(x).features};
  const ParameterId table =
      parameter(op, "weight", max_positions, out.features, initializers_.embedding, Split::kNone);
  return append(op, PositionEmbeddingOp{max_positions}, {x}, out, {table});
}

namespace {
Split weight_split(LinearParallel parallel) {
  switch (parallel) {
    case LinearParallel::kReplicated:
      return Split::kNone;
    case LinearParallel::kColumn:
    case LinearParallel::kColumnGather:
      return Split::kRows;
    case LinearParallel::kRow:
      return Split::kColumns;
  }
  return Split::kNone;
}
}  // namespace

ValueId ModelBuilder::linear(std::string_view op, ValueId x, const LinearOp& attributes) {
  const Split split = weight_split(attributes.parallel);
  std::vector<ParameterId> parameters{
      parameter(op, "weight", attributes.out, attributes.in, initializers_.weight, split)};
  if (attributes.bias) {
    parameters.push_back(parameter(op, "bias", attributes.out, 1, initializers_.bias,
                                   split == Split::kRows ? Split::kRows : Split::kNone));
  }
  const Positions positions = model_.value(x).positions;
  return append(op, attributes, {x}, {{}, ValueRole::kActivation, positions, attributes.out},
                std::move(parameters));
}

ValueId ModelBuilder::tied_linear(std::string_view op, ValueId x, ParameterId weight,
                                  LinearParallel parallel) {
  const Parameter& table = model_.parameter(weight);
  ensure(table.split == weight_split(parallel), "a tied weight is split alike by all its users");
  const LinearOp attributes{table.columns, table.rows, false, parallel};
  const Positions positions = model_.value(x).positions;
  return append(op, attributes, {x}, {{}, ValueRole::kActivation, positions, attributes.out},
                {weight});
}

ValueId ModelBuilder::activation(std::string_view op, ValueId x, Activation function,
                                 double dropout) {
  Value out = model_.value(x);
  out.role = ValueRole::kActivation;
  return append(op, ActivationOp{function, dropout}, {x}, std::move(out), {});
}

ValueId ModelBuilder::swiglu(std::string_view op, ValueId gate, ValueId up) {
  return append(op, SwigluOp{}, {gate, up}, model_.value(up), {});
}

ValueId ModelBuilder::residual(std::string_view op, ValueId a, ValueId b, double dropout) {
  return append(op, ResidualOp{dropout}, {a, b}, model_.value(a), {});
}

ValueId ModelBuilder::dropout(std::string_view op, ValueId x, double probability) {
  return append(op, DropoutOp{probability}, {x}, model_.value(x), {});
}

ValueId ModelBuilder::layer_norm(std::string_view op, ValueId x, double epsilon) {
  const Value out = model_.value(x);
  const ParameterId gamma =
      parameter(op, "weight", out.features, 1, initializers_.gamma, Split::kNone);
  const ParameterId beta = parameter(op, "bias", out.features, 1, initializers_.beta, Split::kNone);
  return append(op, LayerNormOp{epsilon}, {x}, out, {gamma, beta});
}

ValueId ModelBuilder::rms_norm(std::string_view op, ValueId x, double epsilon) {
  const Value out = model_.value(x);
  const ParameterId gamma =
      parameter(op, "weight", out.features, 1, initializers_.gamma, Split::kNone);
  return append(op, RmsNormOp{epsilon}, {x}, out, {gamma});
}

ValueId ModelBuilder::rotary(std::string_view op, ValueId x, const RotaryOp& attributes) {
  return append(op, attributes, {x}, model_.value(x), {});
}

ValueId ModelBuilder::attention(std::string_view op, ValueId q, ValueId k, ValueId v,
                                const AttentionOp& attributes) {
  return append(op, attributes, {q, k, v}, model_.value(q), {});
}

ValueId ModelBuilder::cross_entropy(std::string_view op, ValueId logits, ValueId classes) {
  const Value& x = model_.value(logits);
  return append(op, CrossEntropyOp{x.features}, {logits, classes},
                {{}, ValueRole::kLoss, Positions::kOne, 1}, {});
}

ValueId ModelBuilder::squared_error(std::string_view op, ValueId prediction, ValueId target) {
  return append(op, SquaredErrorOp{}, {prediction, target},
                {{}, ValueRole::kLoss, Positions::kOne, 1}, {});
}

Model ModelBuilder::finish() {
  check_model(model_);
  return std::move(model_);
}

}  // namespace parplan
