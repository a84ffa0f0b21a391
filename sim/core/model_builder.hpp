#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/core/model.hpp"

namespace parplan {

/// Default initialisers of the parameters a builder makes.
struct InitializerSet {
  Initializer weight{Distribution::kNormal, 0.0, 0.02};
  Initializer embedding{Distribution::kNormal, 0.0, 0.02};
  Initializer bias{Distribution::kConstant, 0.0, 0.0};
  Initializer gamma{Distribution::kConstant, 1.0, 0.0};
  Initializer beta{Distribution::kConstant, 0.0, 0.0};
};

/// Writes a Model layer by layer. Parameter names are "<layer>.<op>.weight" and so on; each method
/// appends one op to the layer opened last and returns its output value.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::string model_name, InitializerSet initializers = {});

  ValueId input(std::string name, ValueRole role, Positions positions, std::int64_t features = 1);
  void begin_layer(std::string name);

  ValueId embedding(std::string_view op, ValueId tokens, std::int64_t vocabulary,
                    std::int64_t features);
  ValueId position_embedding(std::string_view op, ValueId x, std::int64_t max_positions);
  ValueId linear(std::string_view op, ValueId x, const LinearOp& attributes);
  /// Linear without bias whose weight is an existing parameter [out, in] (tied embeddings).
  ValueId tied_linear(std::string_view op, ValueId x, ParameterId weight, LinearParallel parallel);
  ValueId activation(std::string_view op, ValueId x, Activation function, double dropout = 0.0);
  ValueId swiglu(std::string_view op, ValueId gate, ValueId up);
  ValueId residual(std::string_view op, ValueId a, ValueId b, double dropout = 0.0);
  ValueId dropout(std::string_view op, ValueId x, double probability);
  ValueId layer_norm(std::string_view op, ValueId x, double epsilon = 1e-5);
  ValueId rms_norm(std::string_view op, ValueId x, double epsilon = 1e-5);
  ValueId rotary(std::string_view op, ValueId x, const RotaryOp& attributes);
  ValueId attention(std::string_view op, ValueId q, ValueId k, ValueId v,
                    const AttentionOp& attributes);
  ValueId cross_entropy(std::string_view op, ValueId logits, ValueId classes);
  ValueId squared_error(std::string_view op, ValueId prediction, ValueId target);

  /// The parameter of that full name; InternalError when there is none.
  ParameterId find_parameter(std::string_view name) const;

  /// Checks the invariants and hands the model over.
  Model finish();

 private:
  ValueId append(std::string_view op, OpBody body, std::vector<ValueId> inputs, Value output,
                 std::vector<ParameterId> parameters);
  ParameterId parameter(std::string_view op, std::string_view suffix, std::int64_t rows,
                        std::int64_t columns, const Initializer& initializer, Split split);

  Model model_;
  InitializerSet initializers_;
};

}  // namespace parplan
