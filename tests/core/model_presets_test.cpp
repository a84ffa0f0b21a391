#include "sim/core/model_presets.hpp"

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
  for (const ModelPreset& preset : model_presets()) {
    CHECK(make_preset(preset.name)->name == preset.name);
  }
}

TEST_CASE("a Hugging Face config becomes the model it describes", "[core]") {
  const auto load = [](const std::string& text) {
    return model_from_hugging_face(JsonDocument("config.json", text));
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
      model_from_hugging_face(JsonDocument("config.json", text));
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
