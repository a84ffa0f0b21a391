#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/core/ids.hpp"

namespace parplan {

/// Which length a value has per sample of the batch.
enum class Positions : std::uint8_t {
  kOne,       ///< one row per sample (a plain feature vector)
  kSequence,  ///< Workload::sequence rows per sample
  kSource,    ///< Workload::source_sequence rows per sample (the encoder's side)
};

/// Where a value comes from.
enum class ValueRole : std::uint8_t {
  kTokens,      ///< input: token ids, int32, one per position
  kFeatures,    ///< input: real features
  kClasses,     ///< target of a cross-entropy: int32, one per position
  kRealTarget,  ///< target of a squared error: real features
  kActivation,  ///< produced by an op
  kLoss,        ///< the scalar loss, produced by the loss op
};

/// An edge of the graph: a matrix of (samples x positions) rows by `features` columns.
struct Value {
  std::string name;
  ValueRole role = ValueRole::kActivation;
  Positions positions = Positions::kSequence;
  std::int64_t features = 1;

  bool operator==(const Value&) const = default;
};

/// How a parameter's elements are drawn, each from a random number keyed by (seed, name, element
/// index).
enum class Distribution : std::uint8_t { kConstant, kNormal, kUniform };
struct Initializer {
  Distribution distribution = Distribution::kConstant;
  double mean = 0.0;   ///< the constant, or the centre
  double scale = 0.0;  ///< standard deviation (normal) or half the width (uniform)

  bool operator==(const Initializer&) const = default;
};

/// Which dimension of a parameter tensor parallelism splits.
enum class Split : std::uint8_t { kNone, kRows, kColumns };

/// A trained tensor of rows x columns (a vector has one column). Used by one op, or by several when
/// tied.
struct Parameter {
  std::string name;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  Initializer initializer;
  Split split = Split::kNone;

  std::int64_t elements() const { return rows * columns; }
  bool operator==(const Parameter&) const = default;
};

/// Table lookup. Inputs: tokens. Parameters: table [vocabulary, features], split over rows under
/// tensor parallelism (vocabulary-parallel).
struct EmbeddingOp {
  std::int64_t vocabulary = 0;
  bool operator==(const EmbeddingOp&) const = default;
};
/// Adds a learned vector per position. Inputs: x. Parameters: table [max_positions, features].
struct PositionEmbeddingOp {
  std::int64_t max_positions = 0;
  bool operator==(const PositionEmbeddingOp&) const = default;
};
/// What tensor parallelism does to a linear op.
enum class LinearParallel : std::uint8_t {
  kReplicated,    ///< every tensor rank computes all of it
  kColumn,        ///< output features are split and stay split
  kColumnGather,  ///< output features are split, then gathered
  kRow,           ///< input features are split, outputs are summed over the tensor ranks
};
/// y = x W^T (+ b). Parameters: weight [out, in], optionally bias [out].
struct LinearOp {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  LinearParallel parallel = LinearParallel::kReplicated;
  bool operator==(const LinearOp&) const = default;
};
enum class Activation : std::uint8_t { kRelu, kGeluErf, kGeluTanh, kSilu };
/// y = dropout(f(x)).
struct ActivationOp {
  Activation function = Activation::kRelu;
  double dropout = 0.0;
  bool operator==(const ActivationOp&) const = default;
};
/// y = silu(gate) * up. Inputs: gate, up.
struct SwigluOp {
  bool operator==(const SwigluOp&) const = default;
};
/// y = a + dropout(b). Inputs: a, b.
struct ResidualOp {
  double dropout = 0.0;
  bool operator==(const ResidualOp&) const = default;
};
/// y = dropout(x), e.g. after an embedding. Inputs: x.
struct DropoutOp {
  double dropout = 0.0;
  bool operator==(const DropoutOp&) const = default;
};
/// Parameters: gamma, beta.
struct LayerNormOp {
  double epsilon = 1e-5;
  bool operator==(const LayerNormOp&) const = default;
};
/// Parameters: gamma.
struct RmsNormOp {
  double epsilon = 1e-5;
  bool operator==(const RmsNormOp&) const = default;
};
/// Scaling of rotary frequencies as Llama 3 configurations declare it (`rope_type` "llama3").
struct RotaryScaling {
  double factor = 1.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  double original_max_positions = 8192.0;
  bool operator==(const RotaryScaling&) const = default;
};
/// Rotates pairs (i, i + head_dim/2) of every head by the position's angle. Inputs: x.
struct RotaryOp {
  std::int64_t heads = 1;
  std::int64_t head_dim = 0;
  double theta = 10000.0;
  std::optional<RotaryScaling> scaling;
  bool operator==(const RotaryOp&) const = default;
};
/// softmax(q k^T / sqrt(head_dim)) v with dropout on the probabilities. Inputs: q, k, v; heads are
/// split under tensor parallelism. heads % kv_heads == 0 (grouped-query attention).
struct AttentionOp {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 0;
  bool causal = false;
  double dropout = 0.0;
  bool operator==(const AttentionOp&) const = default;
};
/// Mean cross-entropy over all positions of the global batch. Inputs: logits, classes.
struct CrossEntropyOp {
  std::int64_t vocabulary = 0;
  bool operator==(const CrossEntropyOp&) const = default;
};
/// Mean of squared differences over all elements of the global batch. Inputs: prediction, target.
struct SquaredErrorOp {
  bool operator==(const SquaredErrorOp&) const = default;
};

using OpBody = std::variant<EmbeddingOp, PositionEmbeddingOp, LinearOp, ActivationOp, SwigluOp,
                            ResidualOp, DropoutOp, LayerNormOp, RmsNormOp, RotaryOp, AttentionOp,
                            CrossEntropyOp, SquaredErrorOp>;

/// The word used for the op's kind in files and messages, e.g. "layer_norm".
std::string_view kind_name(const OpBody& body);

/// One typed operation. `name` is its path inside its layer, e.g. "self_attention.query".
struct Op {
  std::string name;
  OpBody body;
  std::vector<ValueId> inputs;
  ValueId output;
  std::vector<ParameterId> parameters;

  bool operator==(const Op&) const = default;
};

/// The unit that placement moves: a contiguous, topologically ordered run of ops.
struct Layer {
  std::string name;
  OpId first;
  std::uint32_t count = 0;

  bool operator==(const Layer&) const = default;
};

/// What a key can tell apart (sim/core/key.hpp), and elements whose sums and bytes fit 63 bits.
inline constexpr std::size_t kMostLayers = 4095;
inline constexpr std::size_t kMostOpsPerLayer = 16384;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

/// An acyclic graph of layers. Invariants (checked by `check_model`): layers cover all ops in
/// order; every input is a model input or the output of an earlier op; each value has one producer;
/// shapes fit; exactly one loss op, the last one; a parameter's shape fits every op that uses it;
/// at most kMostLayers, kMostOpsPerLayer and, of a parameter, kMostElements.
struct Model {
  std::string name;
  std::vector<Value> values;
  std::vector<Parameter> parameters;
  std::vector<Op> ops;
  std::vector<Layer> layers;

  std::int64_t parameter_count() const;
  const Value& value(ValueId id) const { return values[id.index]; }
  const Parameter& parameter(ParameterId id) const { return parameters[id.index]; }
  const Op& op(OpId id) const { return ops[id.index]; }
  bool operator==(const Model&) const = default;
};

/// Throws InputError naming the layer and op that break an invariant of Model.
void check_model(const Model& model);

/// For each op the layer that holds it.
std::vector<LayerId> layer_of_ops(const Model& model);

/// For each value the op that produces it; none for inputs and targets.
std::vector<std::optional<OpId>> producer_of_values(const Model& model);

}  // namespace parplan
