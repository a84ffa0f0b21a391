#include "sim/core/model_presets.hpp"

#include <array>
#include <cmath>
#include <functional>

namespace parplan {
namespace {

struct AttentionBlock {
  std::int64_t features = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 0;
  bool causal = false;
  bool bias = true;
  bool output_bias = true;
  double dropout = 0.0;
  std::optional<RotaryOp> rotary{};  ///< heads are filled in per projection
};

/// Projections, attention and output projection; `memory` gives keys and values.
ValueId add_attention(ModelBuilder& b, const std::string& name, ValueId x, ValueId memory,
                      const AttentionBlock& a) {
  const LinearOp query{a.features, a.heads * a.head_dim, a.bias, LinearParallel::kColumn};
  const LinearOp key{a.features, a.kv_heads * a.head_dim, a.bias, LinearParallel::kColumn};
  ValueId q = b.linear(name + ".query", x, query);
  ValueId k = b.linear(name + ".key", memory, key);
  const ValueId v = b.linear(name + ".value", memory, key);
  if (a.rotary) {
    RotaryOp rotary = *a.rotary;
    rotary.head_dim = a.head_dim;
    rotary.heads = a.heads;
    q = b.rotary(name + ".rotary_query", q, rotary);
    rotary.heads = a.kv_heads;
    k = b.rotary(name + ".rotary_key", k, rotary);
  }
  const ValueId y = b.attention(name + ".attention", q, k, v,
                                {a.heads, a.kv_heads, a.head_dim, a.causal, a.dropout});
  return b.linear(name + ".output", y,
                  {a.heads * a.head_dim, a.features, a.output_bias, LinearParallel::kRow});
}

struct FeedForwardBlock {
  std::int64_t features = 0;
  std::int64_t hidden = 0;
  Activation function = Activation::kRelu;
  double dropout = 0.0;
  bool bias = true;
};

ValueId add_feed_forward(ModelBuilder& b, ValueId x, const FeedForwardBlock& f) {
  ValueId y =
      b.linear("feed_forward.up", x, {f.features, f.hidden, f.bias, LinearParallel::kColumn});
  y = b.activation("feed_forward.activation", y, f.function, f.dropout);
  return b.linear("feed_forward.down", y, {f.hidden, f.features, f.bias, LinearParallel::kRow});
}

/// x = norm(x + dropout(y)).
ValueId add_and_norm(ModelBuilder& b, const std::string& norm, ValueId x, ValueId y,
                     double dropout) {
  return b.layer_norm(norm, b.residual(norm + ".residual", x, y, dropout));
}

void add_head(ModelBuilder& b, ValueId x, ValueId classes, std::int64_t features,
              std::int64_t vocabulary) {
  b.begin_layer("head");
  const ValueId logits = b.linear("head", x, {features, vocabulary, true, LinearParallel::kColumn});
  b.cross_entropy("loss", logits, classes);
}

}  // namespace

Model make_mlp(const MlpSpec& spec) {
  ModelBuilder b("mlp", spec.initializers);
  ValueId x = b.input("inputs", ValueRole::kFeatures, Positions::kOne, spec.features);
  const ValueId classes = b.input("targets", ValueRole::kClasses, Positions::kOne);
  b.begin_layer("fc1");
  x = b.linear("fc1", x, {spec.features, spec.hidden, true, LinearParallel::kColumn});
  x = b.activation("activation", x, Activation::kRelu);
  b.begin_layer("fc2");
  x = b.linear("fc2", x, {spec.hidden, spec.classes, true, LinearParallel::kRow});
  b.cross_entropy("loss", x, classes);
  return b.finish();
}

Model make_post_norm_decoder(const PostNormDecoderSpec& spec) {
  ModelBuilder b("post-norm-decoder", spec.initializers);
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("targets", ValueRole::kClasses, Positions::kSequence);
  const AttentionBlock attention{.features = spec.features,
                                 .heads = spec.heads,
                                 .kv_heads = spec.heads,
                                 .head_dim = spec.features / spec.heads,
                                 .dropout = spec.dropout};
  const FeedForwardBlock feed_forward{
      .features = spec.features, .hidden = spec.feed_forward, .dropout = spec.dropout};
  b.begin_layer("embedding");
  ValueId x = b.embedding("embedding", tokens, spec.vocabulary, spec.features);
  for (int i = 0; i < spec.layers; ++i) {
    b.begin_layer("layers." + std::to_string(i));
    const ValueId memory = x;
    x = add_and_norm(b, "norm1", x, add_attention(b, "self_attention", x, x, attention),
                     spec.dropout);
    x = add_and_norm(b, "norm2", x, add_attention(b, "cross_attention", x, memory, attention),
                     spec.dropout);
    x = add_and_norm(b, "norm3", x, add_feed_forward(b, x, feed_forward), spec.dropout);
  }
  b.begin_layer("final_norm");
  x = b.layer_norm("final_norm", x);
  add_head(b, x, classes, spec.features, spec.vocabulary);
  return b.finish();
}

Model make_linear_pair(const LinearPairSpec& spec) {
  ModelBuilder b("linear-pair", spec.initializers);
  ValueId x = b.input("inputs", ValueRole::kFeatures, Positions::kOne, spec.in);
  const ValueId target = b.input("targets", ValueRole::kRealTarget, Positions::kOne, spec.out);
  b.begin_layer("column");
  x = b.linear("column", x, {spec.in, spec.hidden, true, LinearParallel::kColumnGather});
  b.begin_layer("row");
  x = b.linear("row", x, {spec.hidden, spec.out, true, LinearParallel::kRow});
  b.squared_error("loss", x, target);
  return b.finish();
}

Model make_encoder_decoder(const EncoderDecoderSpec& spec) {
  ModelBuilder b("encoder-decoder", spec.initializers);
  const ValueId source = b.input("source", ValueRole::kTokens, Positions::kSource);
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("targets", ValueRole::kClasses, Positions::kSequence);
  AttentionBlock attention{.features = spec.features,
                           .heads = spec.heads,
                           .kv_heads = spec.heads,
                           .head_dim = spec.features / spec.heads,
                           .dropout = spec.dropout};
  const FeedForwardBlock feed_forward{
      .features = spec.features, .hidden = spec.feed_forward, .dropout = spec.dropout};
  b.begin_layer("encoder.embedding");
  ValueId memory = b.embedding("encoder.embedding", source, spec.source_vocabulary, spec.features);
  for (int i = 0; i < spec.encoder_layers; ++i) {
    b.begin_layer("encoder.layers." + std::to_string(i));
    memory =
        add_and_norm(b, "norm1", memory,
                     add_attention(b, "self_attention", memory, memory, attention), spec.dropout);
    memory =
        add_and_norm(b, "norm2", memory, add_feed_forward(b, memory, feed_forward), spec.dropout);
  }
  b.begin_layer("decoder.embedding");
  ValueId x = b.embedding("decoder.embedding", tokens, spec.vocabulary, spec.features);
  for (int i = 0; i < spec.decoder_layers; ++i) {
    b.begin_layer("decoder.layers." + std::to_string(i));
    attention.causal = true;
    x = add_and_norm(b, "norm1", x, add_attention(b, "self_attention", x, x, attention),
                     spec.dropout);
    attention.causal = false;
    x = add_and_norm(b, "norm2", x, add_attention(b, "cross_attention", x, memory, attention),
                     spec.dropout);
    x = add_and_norm(b, "norm3", x, add_feed_forward(b, x, feed_forward), spec.dropout);
  }
  add_head(b, x, classes, spec.features, spec.vocabulary);
  return b.finish();
}

namespace {

ValueId add_norm(ModelBuilder& b, const CausalDecoderSpec& spec, const std::string& name,
                 ValueId x) {
  return spec.rms_norm ? b.rms_norm(name, x, spec.epsilon) : b.layer_norm(name, x, spec.epsilon);
}

ValueId add_decoder_feed_forward(ModelBuilder& b, const CausalDecoderSpec& spec, ValueId x) {
  if (spec.activation) {
    return add_feed_forward(b, x,
                            {.features = spec.features,
                             .hidden = spec.feed_forward,
                             .function = *spec.activation,
                             .bias = spec.feed_forward_bias});
  }
  const LinearOp wide{spec.features, spec.feed_forward, spec.feed_forward_bias,
                      LinearParallel::kColumn};
  const ValueId gate = b.linear("feed_forward.gate", x, wide);
  const ValueId up = b.linear("feed_forward.up", x, wide);
  return b.linear("feed_forward.down", b.swiglu("feed_forward.swiglu", gate, up),
                  {spec.feed_forward, spec.features, spec.feed_forward_bias, LinearParallel::kRow});
}

}  // namespace

Model make_causal_decoder(const CausalDecoderSpec& spec) {
  ModelBuilder b(spec.name, spec.initializers);
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("targets", ValueRole::kClasses, Positions::kSequence);
  AttentionBlock attention{.features = spec.features,
                           .heads = spec.heads,
                           .kv_heads = spec.kv_heads,
                           .head_dim = spec.head_dim,
                           .causal = true,
                           .bias = spec.attention_bias,
                           .output_bias = spec.output_bias,
                           .dropout = spec.attention_dropout};
  b.begin_layer("embedding");
  ValueId x = b.embedding("embedding", tokens, spec.vocabulary, spec.features);
  if (spec.rotary_theta) {
    attention.rotary = RotaryOp{1, spec.head_dim, *spec.rotary_theta, spec.rotary_scaling};
  } else {
    b.begin_layer("position");
    x = b.position_embedding("position", x, spec.max_positions);
  }
  if (spec.embedding_dropout > 0.0) x = b.dropout("dropout", x, spec.embedding_dropout);
  for (int i = 0; i < spec.layers; ++i) {
    b.begin_layer("layers." + std::to_string(i));
    ValueId y = add_norm(b, spec, "norm1", x);
    y = add_attention(b, "attention", y, y, attention);
    x = b.residual("residual1", x, y, spec.residual_dropout);
    y = add_decoder_feed_forward(b, spec, add_norm(b, spec, "norm2", x));
    x = b.residual("residual2", x, y, spec.residual_dropout);
  }
  b.begin_layer("final_norm");
  x = add_norm(b, spec, "final_norm", x);
  b.begin_layer("head");
  const ValueId logits =
      spec.tied
          ? b.tied_linear("head", x, b.find_parameter("embedding.weight"), LinearParallel::kColumn)
          : b.linear("head", x, {spec.features, spec.vocabulary, false, LinearParallel::kColumn});
  b.cross_entropy("loss", logits, classes);
  return b.finish();
}

namespace {

/// GPT-2 sizes as released: https://huggingface.co/openai-community (config.json of each).
CausalDecoderSpec gpt2(std::string name, std::int64_t features, std::int64_t heads, int layers) {
  CausalDecoderSpec spec;
  spec.name = std::move(name);
  spec.vocabulary = 50257;
  spec.max_positions = 1024;
  spec.features = features;
  spec.heads = spec.kv_heads = heads;
  spec.head_dim = features / heads;
  spec.feed_forward = 4 * features;
  spec.layers = layers;
  spec.activation = Activation::kGeluTanh;
  spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.1;
  return spec;
}

struct LlamaSize {
  std::int64_t vocabulary, features, heads, kv_heads, feed_forward, max_positions;
  int layers;
  double theta;
};

/// Llama sizes as released (config.json of meta-llama/Llama-2-*, Llama-3.1-8B, Llama-3.2-1B).
CausalDecoderSpec llama(std::string name, const LlamaSize& size) {
  CausalDecoderSpec spec;
  spec.name = std::move(name);
  spec.vocabulary = size.vocabulary;
  spec.features = size.features;
  spec.heads = size.heads;
  spec.kv_heads = size.kv_heads;
  spec.head_dim = size.features / size.heads;
  spec.feed_forward = size.feed_forward;
  spec.max_positions = size.max_positions;
  spec.layers = size.layers;
  spec.rotary_theta = size.theta;
  spec.rms_norm = true;
  spec.attention_bias = spec.output_bias = spec.feed_forward_bias = false;
  spec.tied = false;
  return spec;
}

using Dropout = std::optional<double>;

CausalDecoderSpec with_dropout(CausalDecoderSpec spec, Dropout dropout) {
  if (dropout) spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = *dropout;
  return spec;
}

constexpr std::array kModelPresets{
    ModelPreset{"seed-mlp", "784-256-10 perceptron", 128, 1, 1},
    ModelPreset{"seed-transformer", "8 post-norm decoder layers of width 512, 43.9 M parameters",
                32, 128, 1},
    ModelPreset{"seed-tensor-parallel", "column- then row-parallel linear, 1024-4096-1024", 64, 1,
                1},
    ModelPreset{"seed-encoder-decoder", "4 + 4 post-norm layers of width 512", 32, 64, 64},
    ModelPreset{"gpt2-tiny", "GPT-2 with 4 layers of width 128, vocabulary 1024", 16, 64, 1},
    ModelPreset{"gpt2", "GPT-2, 124 M parameters", 8, 1024, 1},
    ModelPreset{"gpt2-medium", "GPT-2, 355 M parameters", 8, 1024, 1},
    ModelPreset{"gpt2-large", "GPT-2, 774 M parameters", 8, 1024, 1},
    ModelPreset{"gpt2-xl", "GPT-2, 1.56 B parameters", 8, 1024, 1},
    ModelPreset{"llama-tiny", "Llama with 4 layers of width 128, grouped-query attention", 16, 64,
                1},
    ModelPreset{"llama-3.2-1b", "Llama 3.2, 1.2 B parameters, tied", 8, 2048, 1},
    ModelPreset{"llama-2-7b", "Llama 2, 6.7 B parameters", 8, 4096, 1},
    ModelPreset{"llama-2-13b", "Llama 2, 13.0 B parameters", 8, 4096, 1},
    ModelPreset{"llama-2-70b", "Llama 2, 69.0 B parameters, grouped-query attention", 8, 4096, 1},
    ModelPreset{"llama-3.1-8b", "Llama 3.1, 8.0 B parameters", 8, 8192, 1},
};

CausalDecoderSpec gpt2_spec(std::string_view name) {
  CausalDecoderSpec spec;
  if (name == "gpt2-tiny") {
    spec = gpt2("gpt2-tiny", 128, 4, 4);
    spec.vocabulary = 1024;
    spec.max_positions = 128;
  } else if (name == "gpt2-medium") {
    spec = gpt2("gpt2-medium", 1024, 16, 24);
  } else if (name == "gpt2-large") {
    spec = gpt2("gpt2-large", 1280, 20, 36);
  } else if (name == "gpt2-xl") {
    spec = gpt2("gpt2-xl", 1600, 25, 48);
  } else {
    spec = gpt2("gpt2", 768, 12, 12);
  }
  return spec;
}

CausalDecoderSpec llama_spec(std::string_view name) {
  CausalDecoderSpec spec;
  if (name == "llama-tiny") {
    spec = llama("llama-tiny", {1024, 128, 4, 2, 352, 256, 4, 1e4});
  } else if (name == "llama-3.2-1b") {
    spec = llama("llama-3.2-1b", {128256, 2048, 32, 8, 8192, 131072, 16, 5e5});
    spec.tied = true;
    spec.rotary_scaling = RotaryScaling{32.0, 1.0, 4.0, 8192.0};
  } else if (name == "llama-2-13b") {
    spec = llama("llama-2-13b", {32000, 5120, 40, 40, 13824, 4096, 40, 1e4});
  } else if (name == "llama-2-70b") {
    spec = llama("llama-2-70b", {32000, 8192, 64, 8, 28672, 4096, 80, 1e4});
  } else if (name == "llama-3.1-8b") {
    spec = llama("llama-3.1-8b", {128256, 4096, 32, 8, 14336, 131072, 32, 5e5});
    spec.rotary_scaling = RotaryScaling{8.0, 1.0, 4.0, 8192.0};
  } else {
    spec = llama("llama-2-7b", {32000, 4096, 32, 32, 11008, 4096, 32, 1e4});
  }
  return spec;
}

/// Of the presets that are causal decoders.
std::optional<CausalDecoderSpec> decoder_spec(std::string_view name) {
  for (const ModelPreset& preset : kModelPresets) {
    if (preset.name != name) continue;
    if (name.starts_with("gpt2")) return gpt2_spec(name);
    if (name.starts_with("llama")) return llama_spec(name);
  }
  return std::nullopt;
}

/// PyTorch's nn.Linear draws weight and bias uniformly within 1/sqrt(in).
InitializerSet linear_defaults(std::int64_t in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  InitializerSet set;
  set.weight = {Distribution::kUniform, 0.0, bound};
  set.bias = {Distribution::kUniform, 0.0, bound};
  return set;
}

}  // namespace

std::span<const ModelPreset> model_presets() { return kModelPresets; }

std::optional<Model> make_preset(std::string_view name, std::optional<double> dropout) {
  if (name == "seed-mlp") {
    MlpSpec spec;
    spec.initializers = linear_defaults(spec.features);
    Model model = make_mlp(spec);
    model.name = name;
    return model;
  }
  if (name == "seed-transformer") {
    PostNormDecoderSpec spec;
    if (dropout) spec.dropout = *dropout;
    Model model = make_post_norm_decoder(spec);
    model.name = name;
    return model;
  }
  if (name == "seed-tensor-parallel") {
    LinearPairSpec spec;
    spec.initializers = linear_defaults(spec.in);
    Model model = make_linear_pair(spec);
    model.name = name;
    return model;
  }
  if (name == "seed-encoder-decoder") {
    EncoderDecoderSpec spec;
    if (dropout) spec.dropout = *dropout;
    Model model = make_encoder_decoder(spec);
    model.name = name;
    return model;
  }
  const auto spec = decoder_spec(name);
  if (!spec) return std::nullopt;
  return make_causal_decoder(with_dropout(*spec, dropout));
}

std::optional<std::int64_t> preset_max_positions(std::string_view name) {
  const auto spec = decoder_spec(name);
  return spec ? std::optional(spec->max_positions) : std::nullopt;
}

}  // namespace parplan
