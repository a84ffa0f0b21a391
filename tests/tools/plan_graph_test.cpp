#include "tools/report/plan_graph.hpp"

#include "sim/core/model_presets.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/tools/report_fixture.hpp"

using namespace parplan;
using parplan::test::plan_of;
using parplan::tools::plan_dot;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++count;
  }
  return count;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Model small_decoder(int layers, bool tied) {
  CausalDecoderSpec spec;
  spec.name = "small";
  spec.vocabulary = 32;
  spec.features = 8;
  spec.heads = spec.kv_heads = 2;
  spec.head_dim = 4;
  spec.feed_forward = 16;
  spec.max_positions = 16;
  spec.layers = layers;
  spec.activation = Activation::kGeluTanh;
  spec.tied = tied;
  return make_causal_decoder(spec);
}

}  // namespace

TEST_CASE("a small pipeline is drawn as written here", "[tools]") {
  MlpSpec spec;
  spec.features = 8;
  spec.hidden = 4;
  spec.classes = 2;
  const Plan plan = plan_of(make_mlp(spec), "dp=2,pp=2,stages=1+1,microbatches=2", 8, 1);
  // The hidden activation of one microbatch: 8 samples / (2 replicas x 2) rows of 4 floats = 32 B.
  // Stage 0 holds 8 x 4 + 4 = 36 parameters, stage 1 4 x 2 + 2 = 10. Each parameter starts at a
  // multiple of 16 elements in the flat buffers: 32 + 16 and 16 + 16 elements of 4 B, four times
  // with gradients and two moments.
  const std::string expected = R"dot(digraph plan {
  rankdir=LR;
  fontname="sans-serif";
  fontsize=12;
  bgcolor=transparent;
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif", fontsize=12];
  edge [fontname="sans-serif", fontsize=10];
  subgraph cluster_0 {
    class="position";
    style=rounded;
    labeljust=l;
    label="stage 0: ranks 0–1, dp 2\nper rank 36 parameters; with gradients and optimizer state 768 B\ndp: all-reduce of 192 B in 1 bucket";
    n0 [label="fc1\n36 parameters", class="layer"];
  }
  subgraph cluster_1 {
    class="position";
    style=rounded;
    labeljust=l;
    label="stage 1: ranks 2–3, dp 2\nper rank 10 parameters; with gradients and optimizer state 512 B\ndp: all-reduce of 128 B in 1 bucket";
    n1 [label="fc2\n10 parameters", class="layer"];
  }
  n0 -> n1 [label="fc1.activation\n2 × 32 B each way", class="transfer", penwidth=2, dir=both];
}
)dot";
  CHECK(plan_dot(plan) == expected);
}

TEST_CASE("equal neighbouring layers are one node, two are not", "[tools]") {
  const std::string five = plan_dot(plan_of(small_decoder(5, false), "single", 4, 8));
  CHECK(count_of(five, "class=\"layer group\"") == 1);
  CHECK(contains(five, "5 layers of "));
  const std::string two = plan_dot(plan_of(small_decoder(2, false), "single", 4, 8));
  CHECK(count_of(two, "class=\"layer group\"") == 0);
}

TEST_CASE("a plan of a hundred layers stays a small graph", "[tools]") {
  const std::string dot = plan_dot(plan_of(small_decoder(100, false), "pp=4,microbatches=8", 8, 8));
  CHECK(count_of(dot, "class=\"layer") < 16);
  CHECK(count_of(dot, "class=\"transfer\"") == 3);
  CHECK(count_of(dot, "8 \xC3\x97 ") == 3);
}

TEST_CASE("tied parameters and tensor collectives are shown", "[tools]") {
  const std::string dot =
      plan_dot(plan_of(small_decoder(2, true), "tp=2,pp=2,microbatches=2", 4, 8));
  CHECK(count_of(dot, "class=\"tied\"") == 1);
  CHECK(count_of(dot, "\\ntp: ") == 2);
  CHECK(contains(dot,
                 "stage 1: ranks 2\xE2\x80\x93"
                 "3, tp 2"));
}

TEST_CASE("every consumer's device gets its edge under model parallelism", "[tools]") {
  const Model model = *make_preset("seed-encoder-decoder");
  std::string devices = "mp=2,devices=0";
  for (std::size_t l = 1; l < model.layers.size(); ++l) {
    devices += l < model.layers.size() / 2 ? "+0" : "+1";
  }
  const std::string dot = plan_dot(plan_of(model, devices, 4, 16));
  CHECK(count_of(dot, "class=\"position\"") == 2);
  CHECK(contains(dot, "device 0: rank 0"));
  CHECK(count_of(dot, "class=\"transfer\"") >= 1);
}

TEST_CASE("names with quotes, backslashes and broken UTF-8 stay inside their strings", "[tools]") {
  Plan plan = plan_of(small_decoder(2, false), "single", 4, 8);
  plan.model.layers[0].name = "a\"b\\c\xFF";
  CHECK(contains(plan_dot(plan), "label=\"a\\\"b\\\\c\xEF\xBF\xBD\\n"));
}
