#include "sim/core/sizes.hpp"

#include "sim/core/error.hpp"
#include "sim/core/layout.hpp"
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

TEST_CASE("a layout's ranks are counted without wrapping", "[core]") {
  Layout layout;
  layout.dp = layout.tp = layout.pp = kMostRanks;
  CHECK(layout.ranks() == std::numeric_limits<int>::max());
  CHECK_THROWS_WITH(parse_layout("dp=1048576,tp=2"), ContainsSubstring("more than the 1048576"));
  CHECK_THROWS_WITH(parse_layout("dp=2147483647"), ContainsSubstring("between 1 and 1048576"));
  CHECK(parse_layout("dp=131072,tp=8").ranks() == kMostRanks);
}

TEST_CASE("devices= belong to mp", "[core]") {
  Workload w;
  w.global_batch = 4;
  w.sequence = 8;
  const Model model = *make_preset("gpt2-tiny");
  const auto refusals = check_layout(model, w, parse_layout("pp=2,devices=0+0+0+0+1+1+1"));
  REQUIRE(refusals.size() == 1);
  CHECK_THAT(refusals[0].reason, ContainsSubstring("places layers for mp"));
  CHECK_THAT(refusals[0].suggestion, ContainsSubstring("stages="));
}
