#include "sim/core/hugging_face.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "sim/core/json_reader.hpp"
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

std::int64_t positive(JsonReader& reader, const char* key) {
  return reader.integer<std::int64_t>(key, 1, std::int64_t{1} << 40);
}

std::int64_t positive_or(JsonReader& reader, const char* key, std::int64_t otherwise) {
  return reader.optional_integer<std::int64_t>(key, 1, std::int64_t{1} << 40).value_or(otherwise);
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

CausalDecoderSpec read_gpt2(JsonReader& reader) {
  CausalDecoderSpec spec;
  spec.vocabulary = positive(reader, "vocab_size");
  spec.features = positive(reader, "n_embd");
  spec.layers = static_cast<int>(positive(reader, "n_layer"));
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
  return spec;
}

/// "rope_scaling": null, or {"rope_type": "llama3", ...}; "default" means none.
std::optional<RotaryScaling> read_rotary_scaling(JsonReader& reader) {
  auto object = reader.optional_object("rope_scaling");
  if (!object) return std::nullopt;
  auto type = object->find("rope_type");
  if (!type) type = object->find("type");
  if (!type) object->element().fail("a rope_scaling needs a rope_type");
  if (type->string() == "default") return std::nullopt;
  if (type->string() != "llama3") type->fail_expected("\"llama3\" or \"default\"");
  RotaryScaling scaling;
  scaling.factor = object->number("factor", NumberRange::above(0));
  scaling.low_frequency_factor = object->number("low_freq_factor", NumberRange::above(0));
  scaling.high_frequency_factor = object->number("high_freq_factor", NumberRange::above(0));
  scaling.original_max_positions =
      object->number("original_max_position_embeddings", NumberRange::above(0));
  return scaling;
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

CausalDecoderSpec read_llama_like(JsonReader& reader, const std::string& type) {
  CausalDecoderSpec spec;
  spec.vocabulary = positive(reader, "vocab_size");
  spec.features = positive(reader, "hidden_size");
  spec.layers = static_cast<int>(positive(reader, "num_hidden_layers"));
  spec.heads = positive(reader, "num_attention_heads");
  spec.kv_heads = positive_or(reader, "num_key_value_heads", spec.heads);
  refuse_uneven_heads(reader, spec);
  const auto head_dim = reader.optional_integer<std::int64_t>("head_dim", 1);
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
  spec.rotary_theta = reader.optional_number("rope_theta", NumberRange::above(0)).value_or(1e4);
  spec.rotary_scaling = read_rotary_scaling(reader);
  const bool attention_bias = reader.optional_boolean("attention_bias").value_or(false);
  spec.attention_bias = attention_bias || type == "qwen2";
  spec.output_bias = attention_bias;
  spec.feed_forward_bias = reader.optional_boolean("mlp_bias").value_or(false);
  spec.tied = reader.optional_boolean("tie_word_embeddings").value_or(false);
  spec.attention_dropout = probability(reader, "attention_dropout", 0.0);
  if (activation_of(reader, "hidden_act", Activation::kSilu) != Activation::kSilu) {
    reader.require("hidden_act").fail_expected("\"silu\" (gated)");
  }
  refuse_sliding_window(reader, spec.max_positions, type == "mistral");
  return spec;
}

}  // namespace

bool is_hugging_face_config(const JsonDocument& document) {
  return document.root().is_object() && document.root().contains("model_type");
}

Model model_from_hugging_face(const JsonDocument& document, std::optional<double> dropout) {
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
  spec.name = reader.optional_string("_name_or_path").value_or(type.string());
  if (spec.name.empty()) spec.name = type.string();
  set_initializers(reader, spec);
  if (dropout) {
    spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = *dropout;
  }
  return make_causal_decoder(spec);
}

}  // namespace parplan
