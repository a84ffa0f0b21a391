#include "sim/core/hugging_face.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "sim/core/json_reader.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/model_presets.hpp"

namespace parplan {
namespace {

Activation activation_of(JsonReader& reader, const char* key, Activation otherwise) {
  const auto element = reader.find(key);
  if (!element) return otherwise;
  const std::string& name = element->string();
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Activation::kGeluTanh;
  }
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "relu") return Activation::kRelu;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  element->fail_expected("one of gelu_new, gelu_pytorch_tanh, gelu, relu, silu");
}

/// Products of two such widths fit 63 bits.
constexpr std::int64_t kMostWidth = std::int64_t{1} << 30;

std::int64_t positive(JsonReader& reader, const char* key, std::int64_t most = kMostWidth) {
  return reader.integer<std::int64_t>(key, 1, most);
}

std::int64_t positive_or(JsonReader& reader, const char* key, std::int64_t otherwise) {
  return reader.optional_integer<std::int64_t>(key, 1, kMostWidth).value_or(otherwise);
}

int layer_count(JsonReader& reader, const char* key) {
  return static_cast<int>(positive(reader, key, kMostLayers));
}

double probability(JsonReader& reader, const char* key, double otherwise) {
  return reader.optional_number(key, NumberRange::between(0.0, 0.999)).value_or(otherwise);
}

void set_initializers(JsonReader& reader, CausalDecoderSpec& spec) {
  const double range =
      reader.optional_number("initializer_range", NumberRange::above(0.0)).value_or(0.02);
  spec.initializers.weight = {Distribution::kNormal, 0.0, range};
  spec.initializers.embedding = spec.initializers.weight;
}

void refuse_uneven_heads(const JsonReader& reader, const CausalDecoderSpec& spec) {
  if (spec.heads % spec.kv_heads != 0) {
    reader.element().fail(std::to_string(spec.heads) + " attention heads are not a multiple of " +
                          std::to_string(spec.kv_heads) + " key/value heads");
  }
}

/// A setting that changes the numbers or the cost of a step and that only one value of can be run.
[[noreturn]] void refuse(const JsonElement& element, const std::string& what) {
  element.fail(what + " cannot be run here");
}

void refuse_flag(JsonReader& reader, const char* key, bool refused, const std::string& what) {
  const auto element = reader.find(key);
  if (!element || element->boolean() != refused) return;
  refuse(*element, what);
}

/// Factors that leave the numbers alone when they are 1.
void refuse_factor(JsonReader& reader, const char* key) {
  const auto element = reader.find(key);
  if (element && element->number() != 1.0) {
    element->fail_expected("1, the only " + std::string(key) + " that can be run here");
  }
}

/// Settings of all four types, and of relatives whose keys turn up in their files.
void refuse_what_cannot_run(JsonReader& reader) {
  if (const auto element = reader.find("quantization_config")) {
    refuse(*element, "quantised weights");
  }
  if (const auto heads = reader.find("pruned_heads")) {
    const bool none = heads->kind() == JsonKind::kObject && !JsonReader(*heads).has_members();
    if (!none) refuse(*heads, "pruned attention heads");
  }
  refuse_flag(reader, "is_encoder_decoder", true, "an encoder-decoder");
  refuse_flag(reader, "add_cross_attention", true, "cross-attention");
  refuse_flag(reader, "gradient_checkpointing", true, "recomputation of activations");
  for (const char* key : {"attention_multiplier", "embedding_multiplier", "residual_multiplier",
                          "logit_scale", "logits_scaling"}) {
    refuse_factor(reader, key);
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping", "clip_qkv"}) {
    if (const auto element = reader.find(key)) refuse(*element, std::string(key));
  }
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    const auto element = reader.find(key);
    if (element && element->number() > 1.0) refuse(*element, "a mixture of experts");
  }
  for (const char* key : {"qk_norm", "use_qk_norm"}) {
    refuse_flag(reader, key, true, "a norm of queries and keys");
  }
}

CausalDecoderSpec read_gpt2(JsonReader& reader) {
  CausalDecoderSpec spec;
  spec.vocabulary = positive(reader, "vocab_size");
  spec.features = positive(reader, "n_embd");
  spec.layers = layer_count(reader, "n_layer");
  spec.heads = spec.kv_heads = positive(reader, "n_head");
  spec.max_positions = positive_or(reader, "n_positions", 1024);
  spec.feed_forward = positive_or(reader, "n_inner", 4 * spec.features);
  if (spec.features % spec.heads != 0) {
    reader.require("n_head").fail("n_embd " + std::to_string(spec.features) +
                                  " does not divide by " + std::to_string(spec.heads) + " heads");
  }
  spec.head_dim = spec.features / spec.heads;
  spec.epsilon = reader.optional_number("layer_norm_epsilon", NumberRange::above(0)).value_or(1e-5);
  spec.activation = activation_of(reader, "activation_function", Activation::kGeluTanh);
  spec.tied = reader.optional_boolean("tie_word_embeddings").value_or(true);
  spec.embedding_dropout = probability(reader, "embd_pdrop", 0.1);
  spec.attention_dropout = probability(reader, "attn_pdrop", 0.1);
  spec.residual_dropout = probability(reader, "resid_pdrop", 0.1);
  refuse_flag(reader, "scale_attn_weights", false, "attention without the scale 1/sqrt(head_dim)");
  refuse_flag(reader, "scale_attn_by_inverse_layer_idx", true, "attention scaled by the layer");
  return spec;
}

/// {"rope_type": "llama3", ...}; "default" means none.
std::optional<RotaryScaling> read_rotary_scaling(JsonReader& object) {
  auto type = object.find("rope_type");
  if (!type) type = object.find("type");
  if (!type) object.element().fail("rotary positions need a rope_type");
  if (type->string() == "default") return std::nullopt;
  if (type->string() != "llama3") type->fail_expected("\"llama3\" or \"default\"");
  RotaryScaling scaling;
  scaling.factor = object.number("factor", NumberRange::above(0));
  scaling.low_frequency_factor = object.number("low_freq_factor", NumberRange::above(0));
  scaling.high_frequency_factor = object.number("high_freq_factor", NumberRange::above(0));
  if (scaling.low_frequency_factor >= scaling.high_frequency_factor) {
    object.require("low_freq_factor")
        .fail_expected("less than high_freq_factor, " +
                       shortest_text(scaling.high_frequency_factor));
  }
  scaling.original_max_positions =
      object.number("original_max_position_embeddings", NumberRange::above(0));
  return scaling;
}

/// Older files have "rope_theta" and "rope_scaling" (null: none), newer ones "rope_parameters" with
/// both.
void read_rotary(JsonReader& reader, CausalDecoderSpec& spec) {
  const auto theta = reader.optional_number("rope_theta", NumberRange::above(0));
  spec.rotary_theta = theta.value_or(1e4);
  refuse_factor(reader, "partial_rotary_factor");
  auto scaling = reader.optional_object("rope_scaling");
  auto parameters = reader.optional_object("rope_parameters");
  if (scaling && parameters) {
    parameters->element().fail("rope_scaling says the same; keep one of the two");
  }
  if (scaling) spec.rotary_scaling = read_rotary_scaling(*scaling);
  if (!parameters) return;
  spec.rotary_scaling = read_rotary_scaling(*parameters);
  refuse_factor(*parameters, "partial_rotary_factor");
  const auto inner = parameters->optional_number("rope_theta", NumberRange::above(0));
  if (inner && theta && *inner != *theta) {
    parameters->require("rope_theta").fail("the rope_theta beside rope_parameters is another");
  }
  if (inner) spec.rotary_theta = inner;
}

/// "layer_types": one of full_attention per layer.
void refuse_other_layers(JsonReader& reader) {
  reader.optional_array("layer_types", [](JsonElement type) {
    if (type.string() != "full_attention") type.fail_expected("\"full_attention\"");
  });
}

void refuse_sliding_window(JsonReader& reader, std::int64_t max_positions, bool used_by_default) {
  const auto window = reader.optional_integer<std::int64_t>("sliding_window", 1);
  const bool used = reader.optional_boolean("use_sliding_window").value_or(used_by_default);
  if (window && used && *window < max_positions) {
    reader.require("sliding_window")
        .fail(
            "sliding-window attention cannot be run; set it to null to train with full attention");
  }
}

/// Only llama lets its file choose; qwen2 has biases of query, key and value, mistral none.
void read_biases(JsonReader& reader, const std::string& type, CausalDecoderSpec& spec) {
  if (type != "llama") {
    for (const char* key : {"attention_bias", "mlp_bias"}) {
      refuse_flag(reader, key, true, type + " with this bias");
    }
  }
  spec.output_bias = reader.optional_boolean("attention_bias").value_or(false);
  spec.attention_bias = spec.output_bias || type == "qwen2";
  spec.feed_forward_bias = reader.optional_boolean("mlp_bias").value_or(false);
}

CausalDecoderSpec read_llama_like(JsonReader& reader, const std::string& type) {
  CausalDecoderSpec spec;
  spec.vocabulary = positive(reader, "vocab_size");
  spec.features = positive(reader, "hidden_size");
  spec.layers = layer_count(reader, "num_hidden_layers");
  spec.heads = positive(reader, "num_attention_heads");
  spec.kv_heads = positive_or(reader, "num_key_value_heads", spec.heads);
  refuse_uneven_heads(reader, spec);
  const auto head_dim = reader.optional_integer<std::int64_t>("head_dim", 1, kMostWidth);
  if (!head_dim && spec.features % spec.heads != 0) {
    reader.require("num_attention_heads")
        .fail("hidden_size " + std::to_string(spec.features) + " does not divide by " +
              std::to_string(spec.heads) + " heads and no head_dim is given");
  }
  spec.head_dim = head_dim.value_or(spec.features / spec.heads);
  spec.feed_forward = positive(reader, "intermediate_size");
  spec.max_positions = positive_or(reader, "max_position_embeddings", 2048);
  spec.rms_norm = true;
  spec.epsilon = reader.optional_number("rms_norm_eps", NumberRange::above(0)).value_or(1e-6);
  read_rotary(reader, spec);
  read_biases(reader, type, spec);
  spec.tied = reader.optional_boolean("tie_word_embeddings").value_or(false);
  spec.attention_dropout = probability(reader, "attention_dropout", 0.0);
  if (activation_of(reader, "hidden_act", Activation::kSilu) != Activation::kSilu) {
    reader.require("hidden_act").fail_expected("\"silu\" (gated)");
  }
  refuse_other_layers(reader);
  refuse_sliding_window(reader, spec.max_positions, type == "mistral");
  return spec;
}

}  // namespace

bool is_hugging_face_config(const JsonDocument& document) {
  return document.root().is_object() && document.root().contains("model_type");
}

HuggingFaceModel model_from_hugging_face(const JsonDocument& document,
                                         std::optional<double> dropout) {
  JsonReader reader(document);
  const JsonElement type = reader.require("model_type");
  CausalDecoderSpec spec;
  if (type.string() == "gpt2") {
    spec = read_gpt2(reader);
  } else if (type.string() == "llama" || type.string() == "mistral" || type.string() == "qwen2") {
    spec = read_llama_like(reader, type.string());
  } else {
    type.fail_expected("a model type that can be trained here: gpt2, llama, mistral or qwen2");
  }
  refuse_what_cannot_run(reader);
  spec.name = reader.optional_string("_name_or_path").value_or(type.string());
  if (spec.name.empty()) spec.name = type.string();
  set_initializers(reader, spec);
  if (dropout) {
    spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = *dropout;
  }
  return {make_causal_decoder(spec), spec.max_positions};
}

}  // namespace parplan
