#include "tools/profile/micro_plans.hpp"

#include <algorithm>
#include <array>

#include "sim/core/model_builder.hpp"
#include "sim/core/model_presets.hpp"

namespace parplan::tools {
namespace {

/// What varies beside sizes.
struct Flavour {
  const char* name;
  bool causal;
  double dropout;
  Activation activation;
  double activation_dropout;
};
constexpr std::array kFlavours{
    Flavour{"post-norm", false, 0.1, Activation::kRelu, 0.1},
    Flavour{"causal", true, 0.0, Activation::kGeluTanh, 0.0},
    Flavour{"causal-dropout", true, 0.1, Activation::kGeluErf, 0.0},
    Flavour{"plain", false, 0.0, Activation::kRelu, 0.0},
    Flavour{"silu", true, 0.0, Activation::kSilu, 0.0},
};

struct Size {
  std::int64_t batch, sequence, features, heads, feed_forward, vocabulary;
  int flavours;  ///< how many of kFlavours
  int microbatches;
  std::int64_t steps;
};

// About 25 s of one core at 200 GFLOP/s, smallest first.
constexpr std::array kSizes{
    Size{4, 16, 64, 2, 256, 128, 5, 2, 40},      Size{16, 16, 64, 2, 256, 512, 3, 2, 20},
    Size{8, 32, 128, 4, 512, 1024, 5, 2, 20},    Size{4, 64, 256, 4, 1024, 1024, 3, 2, 12},
    Size{4, 64, 512, 8, 2048, 1024, 2, 2, 6},    Size{2, 64, 768, 12, 3072, 1024, 1, 2, 5},
    Size{32, 64, 128, 4, 512, 1024, 4, 2, 8},    Size{8, 64, 512, 8, 2048, 2048, 2, 2, 5},
    Size{4, 256, 256, 4, 1024, 4096, 3, 1, 5},   Size{16, 128, 256, 4, 1024, 8192, 1, 1, 3},
    Size{2, 128, 768, 12, 3072, 32768, 1, 1, 3}, Size{16, 128, 512, 8, 2048, 8192, 1, 2, 3},
    Size{4, 128, 1024, 16, 4096, 4096, 1, 1, 3}, Size{32, 128, 512, 8, 1024, 8192, 1, 1, 3},
};

/// One layer with every kind of operation.
Model omnibus(const Size& s, const Flavour& f) {
  ModelBuilder b(std::string("profile-") + f.name);
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("targets", ValueRole::kClasses, Positions::kSequence);
  const std::int64_t h = s.features;
  const LinearOp square{h, h, true, LinearParallel::kColumn};
  b.begin_layer("layer");
  ValueId x = b.embedding("embedding", tokens, s.vocabulary, h);
  x = b.position_embedding("position", x, s.sequence);
  x = b.dropout("dropout", x, f.dropout);
  ValueId y = b.layer_norm("norm1", x);
  const RotaryOp rotary{s.heads, h / s.heads, 1e4, std::nullopt};
  const ValueId q = b.rotary("rotary_query", b.linear("query", y, square), rotary);
  const ValueId k = b.rotary("rotary_key", b.linear("key", y, square), rotary);
  const ValueId v = b.linear("value", y, square);
  y = b.attention("attention", q, k, v, {s.heads, s.heads, h / s.heads, f.causal, f.dropout});
  x = b.residual("residual1", x, b.linear("output", y, square), f.dropout);
  y = b.rms_norm("norm2", x);
  const LinearOp wide{h, s.feed_forward, false, LinearParallel::kColumn};
  const ValueId gate = b.linear("gate", y, wide);
  const ValueId up = b.linear("up", y, wide);
  y = b.linear("down", b.swiglu("swiglu", gate, up),
               {s.feed_forward, h, false, LinearParallel::kRow});
  x = b.residual("residual2", x, y, f.dropout);
  y = b.layer_norm("norm3", x);
  y = b.linear("up2", y, {h, s.feed_forward, true, LinearParallel::kColumn});
  y = b.activation("activation", y, f.activation, f.activation_dropout);
  y = b.linear("down2", y, {s.feed_forward, h, true, LinearParallel::kRow});
  x = b.layer_norm("norm4", b.residual("residual3", x, y, f.dropout));
  const ValueId logits = b.linear("head", x, {h, s.vocabulary, true, LinearParallel::kColumn});
  b.cross_entropy("loss", logits, classes);
  return b.finish();
}

MicroPlan plan_of(std::string name, Model model, DType precision, std::int64_t batch,
                  std::int64_t sequence, int microbatches, int replicas) {
  MicroPlan micro;
  micro.name = std::move(name);
  Plan& plan = micro.plan;
  plan.model = std::move(model);
  plan.workload.precision = precision;
  plan.workload.global_batch = batch * replicas;
  plan.workload.sequence = sequence;
  // Larger than the inner caches, and seen several times: as in the later epochs of a real run.
  plan.workload.data.samples = plan.workload.global_batch * 20;
  plan.layout.dp = replicas;
  plan.layout.microbatches = microbatches;
  // All gradients at once after backward: transfers beside operations would disturb them.
  plan.stack.overlap_gradient_reduction = false;
  plan.cluster_name = "profile";
  return micro;
}

struct PerceptronShape {
  std::int64_t rows, in, hidden, out;
  int microbatches;
};
constexpr std::array kPerceptrons{
    PerceptronShape{32, 784, 256, 10, 1},   PerceptronShape{64, 784, 256, 10, 1},
    PerceptronShape{128, 784, 256, 10, 2},  PerceptronShape{256, 512, 512, 16, 2},
    PerceptronShape{64, 1024, 1024, 64, 2}, PerceptronShape{128, 256, 128, 10, 1},
};

MicroPlan perceptron(const PerceptronShape& s, DType precision, int replicas, std::int64_t steps) {
  MlpSpec spec;
  spec.features = s.in;
  spec.hidden = s.hidden;
  spec.classes = s.out;
  MicroPlan micro = plan_of("perceptron " + std::to_string(s.rows) + " x " + std::to_string(s.in),
                            make_mlp(spec), precision, s.rows, 1, s.microbatches, replicas);
  micro.steps = steps;
  return micro;
}

MicroPlan linear_pair(std::int64_t rows, DType precision, int replicas, std::int64_t steps) {
  LinearPairSpec pair;
  pair.in = pair.out = 512;
  pair.hidden = 2048;
  MicroPlan micro = plan_of("linear pair " + std::to_string(rows), make_linear_pair(pair),
                            precision, rows, 1, 1, replicas);
  micro.steps = steps;
  return micro;
}

}  // namespace

double MicroPlan::work() const {
  std::int64_t parameters = 0;
  for (const Parameter& p : plan.model.parameters) parameters += p.elements();
  return static_cast<double>(plan.workload.global_batch * plan.workload.sequence * parameters);
}

std::vector<MicroPlan> operation_plans(DType precision) {
  std::vector<MicroPlan> plans;
  for (const Size& s : kSizes) {
    for (int f = 0; f < s.flavours; ++f) {
      const Flavour& flavour = kFlavours[static_cast<std::size_t>(f)];
      MicroPlan micro =
          plan_of(std::string(flavour.name) + " " + std::to_string(s.batch * s.sequence) + " x " +
                      std::to_string(s.features),
                  omnibus(s, flavour), precision, s.batch, s.sequence, s.microbatches, 1);
      micro.steps = s.steps;
      plans.push_back(std::move(micro));
    }
  }
  for (const PerceptronShape& s : kPerceptrons) plans.push_back(perceptron(s, precision, 1, 100));
  for (const std::int64_t rows : {32, 128}) plans.push_back(linear_pair(rows, precision, 1, 20));
  return plans;
}

std::vector<MicroPlan> clipping_plans(DType precision) {
  std::vector<MicroPlan> plans;
  for (const PerceptronShape& s :
       {PerceptronShape{1, 128, 256, 32, 1}, PerceptronShape{1, 512, 512, 16, 1},
        PerceptronShape{1, 1024, 1024, 64, 1}, PerceptronShape{1, 4096, 1024, 64, 1},
        PerceptronShape{1, 4096, 4096, 64, 1}}) {
    plans.push_back(perceptron(s, precision, 1, 6));
    plans.back().plan.workload.optimizer.max_gradient_norm = 1.0;
  }
  return plans;
}

std::vector<MicroPlan> reduction_plans(DType precision, int replicas) {
  constexpr std::int64_t kSteps = 16;
  std::vector<MicroPlan> plans;
  for (const Size& s : {kSizes[0], kSizes[2], kSizes[3]}) {
    plans.push_back(plan_of(
        "step " + std::to_string(s.batch * s.sequence) + " x " + std::to_string(s.features),
        omnibus(s, kFlavours[0]), precision, s.batch, s.sequence, s.microbatches, replicas));
    plans.back().steps = kSteps;
  }
  plans.push_back(perceptron({64, 64, 64, 10, 1}, precision, replicas, kSteps));
  for (const PerceptronShape& s : kPerceptrons) {
    plans.push_back(perceptron(s, precision, replicas, kSteps));
  }
  plans.push_back(linear_pair(128, precision, replicas, kSteps));
  return plans;
}

}  // namespace parplan::tools
