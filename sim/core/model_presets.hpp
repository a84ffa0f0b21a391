#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/core/model.hpp"
#include "sim/core/model_builder.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// Two linears with ReLU between and a cross-entropy over `classes`.
struct MlpSpec {
  std::int64_t features = 784;
  std::int64_t hidden = 256;
  std::int64_t classes = 10;
  InitializerSet initializers{};
};
Model make_mlp(const MlpSpec& spec);

/// Post-norm decoder layers that attend to their own input twice: `layer(x, x)` of PyTorch's
/// TransformerDecoderLayer, self-attention and cross-attention over the same x, no mask.
struct PostNormDecoderSpec {
  std::int64_t vocabulary = 10000;
  std::int64_t features = 512;
  std::int64_t heads = 8;
  std::int64_t feed_forward = 2048;
  int layers = 8;
  double dropout = 0.1;
  InitializerSet initializers{};
};
Model make_post_norm_decoder(const PostNormDecoderSpec& spec);

/// A column-parallel linear whose output is gathered, then a row-parallel linear whose outputs are
/// summed; mean squared error against given targets.
struct LinearPairSpec {
  std::int64_t in = 1024;
  std::int64_t hidden = 4096;
  std::int64_t out = 1024;
  InitializerSet initializers{};
};
Model make_linear_pair(const LinearPairSpec& spec);

/// Post-norm encoder, and post-norm decoder with causal self-attention whose layers all attend to
/// the encoder's output.
struct EncoderDecoderSpec {
  std::int64_t source_vocabulary = 10000;
  std::int64_t vocabulary = 10000;
  std::int64_t features = 512;
  std::int64_t heads = 8;
  std::int64_t feed_forward = 2048;
  int encoder_layers = 4;
  int decoder_layers = 4;
  double dropout = 0.1;
  InitializerSet initializers{};
};
Model make_encoder_decoder(const EncoderDecoderSpec& spec);

/// Pre-norm causal decoder: GPT-2 and Llama are two settings of it.
struct CausalDecoderSpec {
  std::string name = "decoder";
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 0;
  std::int64_t feed_forward = 0;
  std::int64_t max_positions = 0;  ///< learned positions only when `rotary_theta` is empty
  int layers = 1;
  std::optional<double> rotary_theta;  ///< rotary instead of learned positions
  std::optional<RotaryScaling> rotary_scaling;
  bool rms_norm = false;
  double epsilon = 1e-5;
  std::optional<Activation> activation;  ///< none: SwiGLU
  bool attention_bias = true;            ///< of query, key, value
  bool output_bias = true;               ///< of the attention's output
  bool feed_forward_bias = true;
  bool tied = true;
  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;
  double residual_dropout = 0.0;
  InitializerSet initializers{};
};
Model make_causal_decoder(const CausalDecoderSpec& spec);

/// A named model with the workload it is usually shown with.
struct ModelPreset {
  std::string_view name;
  std::string_view summary;
  std::int64_t global_batch = 1;
  std::int64_t sequence = 1;
  std::int64_t source_sequence = 1;
};
std::span<const ModelPreset> model_presets();
/// None when no preset has that name. `dropout` replaces every dropout probability of the preset.
std::optional<Model> make_preset(std::string_view name, std::optional<double> dropout = {});
/// The longest sequence the preset was published for; none where any length works.
std::optional<std::int64_t> preset_max_positions(std::string_view name);

}  // namespace parplan
