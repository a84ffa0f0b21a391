#include "tests/hw/small_models.hpp"

namespace parplan::hw {
namespace {

InitializerSet reference_initializers() {
  InitializerSet set;
  set.weight = set.embedding = {Distribution::kNormal, 0.0, 0.05};
  set.bias = {Distribution::kUniform, 0.0, 0.05};
  set.gamma = {Distribution::kUniform, 1.0, 0.1};
  set.beta = {Distribution::kUniform, 0.0, 0.1};
  return set;
}

CausalDecoderSpec small_decoder(double dropout) {
  CausalDecoderSpec spec;
  spec.vocabulary = 61;
  spec.max_positions = 32;
  spec.features = 32;
  spec.heads = 4;
  spec.head_dim = 8;
  spec.layers = 2;
  spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = dropout;
  spec.initializers = reference_initializers();
  return spec;
}

}  // namespace

Model small_mlp() { return make_mlp({.initializers = reference_initializers()}); }

Model small_linear_pair() {
  return make_linear_pair(
      {.in = 24, .hidden = 40, .out = 16, .initializers = reference_initializers()});
}

Model small_seed_transformer(double dropout) {
  return make_post_norm_decoder({.vocabulary = 97,
                                 .features = 32,
                                 .heads = 4,
                                 .feed_forward = 64,
                                 .layers = 2,
                                 .dropout = dropout,
                                 .initializers = reference_initializers()});
}

Model small_encoder_decoder(double dropout) {
  return make_encoder_decoder({.source_vocabulary = 97,
                               .vocabulary = 97,
                               .features = 32,
                               .heads = 4,
                               .feed_forward = 64,
                               .encoder_layers = 2,
                               .decoder_layers = 2,
                               .dropout = dropout,
                               .initializers = reference_initializers()});
}

Model small_gpt2(double dropout) {
  CausalDecoderSpec spec = small_decoder(dropout);
  spec.name = "small-gpt2";
  spec.kv_heads = 4;
  spec.feed_forward = 128;
  spec.activation = Activation::kGeluTanh;
  return make_causal_decoder(spec);
}

Model small_llama(bool tied, double dropout) {
  CausalDecoderSpec spec = small_decoder(dropout);
  spec.name = tied ? "small-llama-tied" : "small-llama-untied";
  spec.kv_heads = 2;
  spec.feed_forward = 48;
  spec.rotary_theta = 10000.0;
  spec.rms_norm = true;
  spec.attention_bias = spec.output_bias = spec.feed_forward_bias = false;
  spec.tied = tied;
  return make_causal_decoder(spec);
}

Workload reference_workload(std::int64_t batch, std::int64_t sequence,
                            std::int64_t source_sequence) {
  Workload w;
  w.global_batch = batch;
  w.sequence = sequence;
  w.source_sequence = source_sequence;
  w.precision = DType::kFloat64;
  w.data.samples = 20 * batch;
  w.data.shuffle = false;
  w.seed = 7;
  return w;
}

}  // namespace parplan::hw
