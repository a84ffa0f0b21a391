#include "sim/core/sizes.hpp"

#include "sim/core/error.hpp"
#include "sim/core/model_presets.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

TEST_CASE("what 63 bits cannot size is refused with what is too large", "[core]") {
  Workload w;
  w.global_batch = 8;
  w.sequence = 64;
  Model model = *make_preset("gpt2-tiny");
  CHECK_NOTHROW(check_sizes(model, w));
  // 2^34 samples of 64 positions by the logits' 1024 features, 8 bytes and a gradient: 2^54 bytes
  // and more; 2^40 samples are beyond 2^60.
  w.global_batch = std::int64_t{1} << 40;
  CHECK_THROWS_WITH(check_sizes(model, w), ContainsSubstring("a step of this batch"));
  w.global_batch = 8;
  for (Parameter& p : model.parameters) {
    p.rows = kMostElements;
    p.columns = 1 << 20;
  }
  CHECK_THROWS_WITH(check_sizes(model, w), ContainsSubstring("the model 'gpt2-tiny'"));
  Model features = *make_preset("seed-mlp");
  w.data.samples = std::int64_t{1} << 50;
  CHECK_THROWS_WITH(check_sizes(features, w), ContainsSubstring("number of samples"));
}

TEST_CASE("a model ends where keys and sizes end", "[core]") {
  CausalDecoderSpec spec;
  spec.vocabulary = 16;
  spec.features = 8;
  spec.heads = spec.kv_heads = 1;
  spec.head_dim = 8;
  spec.feed_forward = 8;
  spec.max_positions = 4;
  spec.layers = 4000;
  CHECK(make_causal_decoder(spec).layers.size() == 4004);
  spec.layers = 4095;
  CHECK_THROWS_WITH(make_causal_decoder(spec), ContainsSubstring("more than the 4095"));
  spec.layers = 1;
  spec.vocabulary = kMostElements;
  CHECK_THROWS_WITH(make_causal_decoder(spec), ContainsSubstring("embedding.weight"));
}
