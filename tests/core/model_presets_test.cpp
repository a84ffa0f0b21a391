#include "sim/core/model_presets.hpp"

#include <nlohmann/json.hpp>

#include <string>

#include "sim/core/error.hpp"
#include "sim/core/hugging_face.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

TEST_CASE("presets have the published parameter counts", "[core]") {
  const auto count = [](const char* name) { return make_preset(name)->parameter_count(); };
  CHECK(count("seed-mlp") == 784 * 256 + 256 + 256 * 10 + 10);
  // Embedding, 8 layers of 2 x 4 projections, feed-forward and 3 norms, final norm, head.
  const std::int64_t attention = 4 * (512 * 512 + 512);
  const std::int64_t layer = 2 * attention + 512 * 2048 + 2048 + 2048 * 512 + 512 + 3 * 2 * 512;
  CHECK(count("seed-transformer") == 10000 * 512 + 8 * layer + 2 * 512 + 512 * 10000 + 10000);
  CHECK(count("gpt2") == 124'439'808);  // transformers: GPT2LMHeadModel.num_parameters()
  CHECK(count("gpt2-xl") == 1'557'611'200);
  CHECK(count("llama-2-7b") == 6'738'415'616);
  CHECK(count("llama-2-13b") == 13'015'864'320);
  CHECK(count("llama-2-70b") == 68'976'648'192);
  CHECK(count("llama-3.1-8b") == 8'030'261'248);
  CHECK(count("llama-3.2-1b") == 1'235'814'400);
  CHECK_FALSE(make_preset("gpt3").has_value());
  CHECK(preset_max_positions("gpt2") == 1024);
  CHECK(preset_max_positions("llama-3.1-8b") == 131072);
  CHECK_FALSE(preset_max_positions("seed-transformer").has_value());
  for (const ModelPreset& preset : model_presets()) {
    CHECK(make_preset(preset.name)->name == preset.name);
  }
}

TEST_CASE("a Hugging Face config becomes the model it describes", "[core]") {
  const auto load = [](const std::string& text) {
    return model_from_hugging_face(JsonDocument("config.json", text)).model;
  };
  const Model gpt2 = load(R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768,
    "n_layer": 12, "n_head": 12, "n_positions": 1024, "architectures": ["GPT2LMHeadModel"]})");
  CHECK(gpt2.parameter_count() == 124'439'808);
  // Qwen2.5-7B as published: 7.62 B parameters; query, key and value have biases, nothing else
  // does.
  const Model qwen = load(R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "max_position_embeddings": 131072, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 131072, "use_sliding_window": false,
    "tie_word_embeddings": false})");
  CHECK(qwen.parameter_count() == 7'615'616'512);
}

TEST_CASE("a Hugging Face config that cannot be trained here is refused by key", "[core]") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(model_from_hugging_face(JsonDocument("config.json", text)));
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  const std::string llama =
      R"("vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 96)";
  CHECK(message("{\"model_type\": \"llama\", " + llama + "}") == "accepted");
  CHECK(message("{\"model_type\": \"mamba\", " + llama + "}").find("gpt2, llama") !=
        std::string::npos);
  CHECK(message("{\"model_type\": \"llama\", \"num_key_value_heads\": 3, " + llama + "}")
            .find("not a multiple of 3") != std::string::npos);
  CHECK(message("{\"model_type\": \"llama\", \"hidden_act\": \"gelu\", " + llama + "}")
            .find("$.hidden_act") != std::string::npos);
  CHECK(message("{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"yarn\"}, " +
                llama + "}")
            .find("$.rope_scaling.rope_type") != std::string::npos);
  CHECK(message("{\"model_type\": \"mistral\", \"sliding_window\": 16, " + llama + "}")
            .find("sliding") != std::string::npos);
  CHECK(message("{\"model_type\": \"llama\", \"vocab_size\": 100}").find("hidden_size") !=
        std::string::npos);
}

TEST_CASE("settings of a config that change the numbers are honoured or refused", "[core]") {
  using nlohmann::json;
  const json gpt2 = {{"model_type", "gpt2"}, {"vocab_size", 100}, {"n_embd", 64},
                     {"n_layer", 2},         {"n_head", 4},       {"n_positions", 32}};
  const auto llama = [](const char* type) {
    return json{
        {"model_type", type},           {"vocab_size", 100},        {"hidden_size", 64},
        {"num_hidden_layers", 2},       {"num_attention_heads", 4}, {"intermediate_size", 96},
        {"max_position_embeddings", 48}};
  };
  const auto with = [](json config, const char* key, json value) {
    config[key] = std::move(value);
    return config;
  };
  const auto load = [](const json& config) {
    return model_from_hugging_face(JsonDocument("config.json", config.dump()));
  };
  const auto refused = [&](const json& base, const char* key, json value) {
    INFO(key);
    CHECK_THROWS_WITH(load(with(base, key, std::move(value))),
                      ContainsSubstring("$." + std::string(key)));
  };
  CHECK(load(gpt2).max_positions == 32);
  CHECK(load(llama("llama")).max_positions == 48);
  refused(gpt2, "scale_attn_weights", false);
  refused(gpt2, "scale_attn_by_inverse_layer_idx", true);
  refused(gpt2, "add_cross_attention", true);
  refused(gpt2, "gradient_checkpointing", true);
  refused(gpt2, "pruned_heads", {{"0", {1}}});
  refused(gpt2, "n_layer", 1000000000);
  refused(gpt2, "n_embd", std::int64_t{1} << 40);
  const json harmless = {{"scale_attn_weights", true},
                         {"reorder_and_upcast_attn", true},
                         {"summary_type", "cls_index"},
                         {"pruned_heads", json::object()},
                         {"quantization_config", nullptr}};
  for (const auto& [key, value] : harmless.items()) {
    INFO(key);
    CHECK_NOTHROW(load(with(gpt2, key.c_str(), value)));
  }
  for (const char* type : {"llama", "mistral", "qwen2"}) {
    refused(llama(type), "partial_rotary_factor", 0.5);
    refused(llama(type), "num_local_experts", 8);
    CHECK_NOTHROW(load(with(llama(type), "num_local_experts", 1)));
    refused(llama(type), "quantization_config", {{"bits", 4}});
    refused(llama(type), "attention_multiplier", 0.5);
    refused(llama(type), "logit_scale", 2.0);
    refused(llama(type), "residual_multiplier", 0.2);
    refused(llama(type), "layer_types", {"full_attention", "sliding_attention"});
    refused(llama(type), "rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}});
    CHECK_NOTHROW(load(with(llama(type), "layer_types", {"full_attention", "full_attention"})));
    CHECK_NOTHROW(load(with(llama(type), "pretraining_tp", 2)));
  }
  refused(llama("mistral"), "attention_bias", true);
  refused(llama("qwen2"), "attention_bias", true);
  CHECK_NOTHROW(load(with(llama("llama"), "attention_bias", true)));
}

TEST_CASE("rotary settings are read where newer configs keep them", "[core]") {
  const std::string llama =
      R"("model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 4, "intermediate_size": 96)";
  const auto rotary = [&](const std::string& more) {
    const JsonDocument document("config.json", "{" + llama + more + "}");
    const Model model = model_from_hugging_face(document).model;
    for (const Op& op : model.ops) {
      if (const auto* found = std::get_if<RotaryOp>(&op.body)) return *found;
    }
    throw InternalError("a llama rotates");
  };
  CHECK(rotary("").theta == 1e4);
  const std::string scaling =
      R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192)";
  const RotaryOp old = rotary(R"(, "rope_theta": 500000.0, "rope_scaling": {)" + scaling + "}");
  CHECK(old.theta == 5e5);
  REQUIRE(old.scaling);
  CHECK(rotary(R"(, "rope_parameters": {"rope_theta": 500000.0, )" + scaling + "}") == old);
  for (const char* low : {"4.0", "5.5"}) {
    CHECK_THROWS_WITH(
        rotary(std::string(R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": )") +
               low + R"(, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192})"),
        ContainsSubstring("low_freq_factor: expected less than high_freq_factor, 4, found " +
                          std::string(low)));
  }
  CHECK_THROWS_WITH(rotary(R"(, "rope_theta": 1.0, "rope_parameters": {"rope_theta": 2.0,
      "rope_type": "default"})"),
                    ContainsSubstring("rope_theta"));
  CHECK_THROWS_WITH(rotary(R"(, "rope_scaling": {"rope_type": "default"},
      "rope_parameters": {"rope_type": "default"})"),
                    ContainsSubstring("keep one"));
}
