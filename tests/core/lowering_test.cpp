#include <map>
#include <set>
#include <string>

#include "sim/core/error.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/model_builder.hpp"
#include "sim/core/plan.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

ValueId attention_block(ModelBuilder& b, const std::string& name, ValueId x, ValueId memory,
                        std::int64_t h, bool causal) {
  constexpr int kHeads = 2;
  const LinearOp column{h, h, true, LinearParallel::kColumn};
  const ValueId q = b.linear(name + ".query", x, column);
  const ValueId k = b.linear(name + ".key", memory, column);
  const ValueId v = b.linear(name + ".value", memory, column);
  const ValueId a =
      b.attention(name + ".attention", q, k, v, {kHeads, kHeads, h / kHeads, causal, 0.1});
  return b.linear(name + ".output", a, {h, h, true, LinearParallel::kRow});
}

/// Embedding, `layers` pre-norm blocks, tied head: every op that the layouts below must split.
Model tied_decoder(int layers, std::int64_t h = 8, std::int64_t vocabulary = 11) {
  ModelBuilder b("tied-decoder");
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("classes", ValueRole::kClasses, Positions::kSequence);
  b.begin_layer("embedding");
  ValueId x = b.embedding("embedding", tokens, vocabulary, h);
  for (int i = 0; i < layers; ++i) {
    b.begin_layer("layers." + std::to_string(i));
    ValueId y = b.layer_norm("norm1", x);
    y = attention_block(b, "attention", y, y, h, true);
    x = b.residual("residual1", x, y, 0.1);
    y = b.layer_norm("norm2", x);
    y = b.linear("up", y, {h, 4 * h, true, LinearParallel::kColumn});
    y = b.activation("act", y, Activation::kGeluTanh);
    y = b.linear("down", y, {4 * h, h, true, LinearParallel::kRow});
    x = b.residual("residual2", x, y);
  }
  b.begin_layer("head");
  x = b.layer_norm("final_norm", x);
  x = b.tied_linear("head", x, b.find_parameter("embedding.weight"), LinearParallel::kColumn);
  b.cross_entropy("loss", x, classes);
  return b.finish();
}

/// Encoder whose output every decoder layer reads.
Model encoder_decoder() {
  ModelBuilder b("encoder-decoder");
  const ValueId source = b.input("source", ValueRole::kTokens, Positions::kSource);
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("classes", ValueRole::kClasses, Positions::kSequence);
  b.begin_layer("encoder");
  ValueId memory = b.embedding("encoder", source, 13, 8);
  memory = b.layer_norm("norm", memory);
  b.begin_layer("embedding");
  ValueId x = b.embedding("embedding", tokens, 11, 8);
  for (int i = 0; i < 2; ++i) {
    b.begin_layer("layers." + std::to_string(i));
    const ValueId y = attention_block(b, "cross_attention", x, memory, 8, false);
    x = b.layer_norm("norm", b.residual("residual", x, y));
  }
  b.begin_layer("head");
  x = b.linear("head", x, {8, 11, true, LinearParallel::kColumn});
  b.cross_entropy("loss", x, classes);
  return b.finish();
}

Workload small_workload() {
  Workload w;
  w.global_batch = 16;
  w.sequence = 4;
  w.source_sequence = 6;
  return w;
}

/// Every send has its receive, in the same order on both sides of a pair and direction.
void check_transfers_match(const Program& program) {
  std::map<std::pair<int, int>, std::vector<std::pair<std::uint64_t, std::int64_t>>> sent;
  std::map<std::pair<int, int>, std::vector<std::pair<std::uint64_t, std::int64_t>>> received;
  const auto name = [](const Instruction& i) {
    const bool gradient =
        i.key.phase() == Phase::kSendGradient || i.key.phase() == Phase::kReceiveGradient;
    return (std::uint64_t{gradient} << 40) | (std::uint64_t{i.key.microbatch()} << 20) | i.key.op();
  };
  for (const RankClass& c : program.classes) {
    for (const Instruction& i : c.instructions) {
      if (i.kind == InstructionKind::kSend) {
        sent[{c.position, i.peer}].push_back({name(i), i.bytes.value});
      }
      if (i.kind == InstructionKind::kReceive) {
        received[{i.peer, c.position}].push_back({name(i), i.bytes.value});
      }
    }
  }
  for (auto& [pair, list] : sent) std::sort(list.begin(), list.end());
  for (auto& [pair, list] : received) std::sort(list.begin(), list.end());
  CHECK(sent == received);
}

/// Waits point back to communication; each gradient element is reduced once and updated once.
void check_list(const Program& program) {
  for (const RankClass& c : program.classes) {
    std::int64_t reduced = 0;
    std::int64_t updated = 0;
    for (std::size_t i = 0; i < c.instructions.size(); ++i) {
      const Instruction& instruction = c.instructions[i];
      for (const std::uint32_t w : instruction.waits) {
        REQUIRE(w < i);
        CHECK(c.instructions[w].stream != Stream::kCompute);
      }
      if (instruction.kind == InstructionKind::kReduce) {
        reduced += instruction.flat_end - instruction.flat_begin;
      }
      if (instruction.kind == InstructionKind::kOptimizer) {
        updated += instruction.flat_end - instruction.flat_begin;
      }
    }
    CHECK(reduced == (program.layout.dp > 1 ? c.flat_elements : 0));
    CHECK(updated == c.flat_elements);
  }
}

}  // namespace

TEST_CASE("every layout lowers to a program without leaks, lost transfers or lost gradients",
          "[core]") {
  const Model decoder = tied_decoder(4);
  const Model both = encoder_decoder();
  const std::vector<std::pair<const Model*, std::string>> cases{
      {&decoder, "single"},
      {&decoder, "microbatches=4"},
      {&decoder, "dp=2"},
      {&decoder, "tp=2"},
      {&decoder, "dp=2,tp=2,microbatches=2"},
      {&decoder, "pp=2,microbatches=4,schedule=gpipe"},
      {&decoder, "pp=3,microbatches=8,schedule=1f1b,stages=1+3+2"},
      {&decoder, "pp=6,microbatches=2"},
      {&decoder, "dp=2,tp=2,pp=2,microbatches=2"},
      {&decoder, "mp=2"},
      {&decoder, "mp=2,devices=0+1+0+1+0+1"},
      {&decoder, "dp=2,mp=3"},
      {&both, "mp=2,devices=0+1+1+1+1"},
      {&both, "mp=3,devices=0+1+2+1+0"},
      {&both, "dp=2,tp=2,mp=2,devices=0+1+1+1+1"},
      {&both, "pp=4,microbatches=4,stages=1+2+1+1"},
  };
  for (const auto& [model, text] : cases) {
    INFO(model->name << " " << text);
    const Program program = lower(*model, small_workload(), parse_layout(text), Stack{});
    check_transfers_match(program);
    check_list(program);
    for (const RankClass& c : program.classes) {
      CHECK_NOTHROW(replay_memory(c, program.precision));
    }
  }
}

TEST_CASE("the optimizer waits for the norm of the whole gradient, which waits for every reduction",
          "[core]") {
  const Model decoder = tied_decoder(4);
  Workload workload = small_workload();
  workload.optimizer.max_gradient_norm = 1.0;
  for (const std::string text :
       {"single", "dp=2", "tp=2", "dp=2,tp=2,microbatches=2", "pp=2,microbatches=4", "mp=2",
        "dp=2,tp=2,pp=2,microbatches=2", "pp=3,microbatches=8"}) {
    INFO(text);
    const Program program = lower(decoder, workload, parse_layout(text), Stack{});
    const bool several = program.layout.tp * program.layout.positions() > 1;
    for (const RankClass& c : program.classes) {
      std::set<std::size_t> awaited;
      std::vector<std::size_t> norms, reductions;
      for (std::size_t i = 0; i < c.instructions.size(); ++i) {
        const Instruction& instruction = c.instructions[i];
        awaited.insert(instruction.waits.begin(), instruction.waits.end());
        switch (instruction.kind) {
          case InstructionKind::kReduce:
          case InstructionKind::kReduceTied:
            CHECK(norms.empty());
            break;
          case InstructionKind::kGradientNorm:
            norms.push_back(i);
            for (std::size_t k = 0; k < i; ++k) {
              const InstructionKind kind = c.instructions[k].kind;
              const bool reduces =
                  kind == InstructionKind::kReduce || kind == InstructionKind::kReduceTied;
              // A bucket's tied reduction is awaited by its reduction over replicas.
              if (reduces && c.instructions[k].key.phase() == Phase::kReduceGradients) {
                CHECK(awaited.contains(k));
              }
            }
            break;
          case InstructionKind::kReduceNorm:
            reductions.push_back(i);
            CHECK(norms == std::vector<std::size_t>{i - 1});
            break;
          case InstructionKind::kOptimizer:
            REQUIRE(norms.size() == 1);
            if (several) {
              CHECK(instruction.waits ==
                    std::vector<std::uint32_t>{static_cast<std::uint32_t>(reductions.at(0))});
            } else {
              CHECK(instruction.waits.empty());
            }
            break;
          case InstructionKind::kRun:
          case InstructionKind::kSend:
          case InstructionKind::kReceive:
            break;
        }
      }
      CHECK(norms.size() == 1);
      CHECK(reductions.size() == (several ? 1U : 0U));
    }
  }
}

TEST_CASE("over the ranks of a replica every gradient element counts once in the norm", "[core]") {
  const Model decoder = tied_decoder(4);
  const Model both = encoder_decoder();
  Workload workload = small_workload();
  workload.optimizer.max_gradient_norm = 1.0;
  const std::vector<std::pair<const Model*, std::string>> cases{
      {&decoder, "single"},
      {&decoder, "tp=2"},
      {&decoder, "dp=2,pp=2,microbatches=4"},
      {&decoder, "tp=2,pp=3,microbatches=8,stages=1+3+2"},
      {&decoder, "mp=2,devices=0+1+0+1+0+1"},
      {&both, "dp=2,tp=2,mp=2,devices=0+1+1+1+1"},
  };
  for (const auto& [model, text] : cases) {
    INFO(model->name << " " << text);
    const Program program = lower(*model, workload, parse_layout(text), Stack{});
    std::map<std::string, double> counted;
    for (const RankClass& c : program.classes) {
      for (const ParameterShard& shard : c.parameters) {
        const std::int64_t begin = shard.flat_offset;
        const std::int64_t end = begin + shard.local_rows * shard.local_columns;
        for (const NormRange& range : c.norm_ranges) {
          const std::int64_t inside = std::min(end, range.end) - std::max(begin, range.begin);
          if (inside <= 0) continue;
          counted[model->parameter(shard.parameter).name] +=
              program.layout.tp * range.share * static_cast<double>(inside);
        }
      }
    }
    for (const Parameter& p : model->parameters) {
      INFO(p.name);
      // Rows of a vocabulary are padded to a multiple of tp: zeros, which count nothing.
      const std::int64_t tp = program.layout.tp;
      const std::int64_t padded = (p.rows + tp - 1) / tp * tp * p.columns;
      CHECK(counted[p.name] >= static_cast<double>(p.elements()) - 1e-9);
      CHECK(counted[p.name] <= static_cast<double>(padded) + 1e-9);
    }
  }
}

TEST_CASE("stages hold the parameters of their layers and tied ones twice", "[core]") {
  const Model model = tied_decoder(4);
  const Program program =
      lower(model, small_workload(), parse_layout("pp=2,microbatches=2,stages=3+3"), Stack{});
  std::multiset<std::string> names;
  for (const RankClass& c : program.classes) {
    for (const ParameterShard& p : c.parameters) names.insert(model.parameter(p.parameter).name);
  }
  for (const Parameter& p : model.parameters) {
    CHECK(names.count(p.name) == (p.name == "embedding.weight" ? 2U : 1U));
  }
  // The tied table is summed over both stages on both of them.
  for (const RankClass& c : program.classes) {
    int tied = 0;
    for (const Instruction& i : c.instructions) {
      if (i.kind != InstructionKind::kReduceTied) continue;
      ++tied;
      CHECK(i.group_positions == std::vector<int>{0, 1});
    }
    CHECK(tied == 1);
  }
}

TEST_CASE("tensor parallelism cuts what its rules say", "[core]") {
  const Model model = tied_decoder(1, 8, 11);
  const Program program = lower(model, small_workload(), parse_layout("tp=2"), Stack{});
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes;
  for (const ParameterShard& p : program.classes[0].parameters) {
    shapes[model.parameter(p.parameter).name] = {p.local_rows, p.local_columns};
  }
  CHECK(shapes["embedding.weight"] == std::pair<std::int64_t, std::int64_t>{6, 8});  // ceil(11/2)
  CHECK(shapes["layers.0.attention.query.weight"] == std::pair<std::int64_t, std::int64_t>{4, 8});
  CHECK(shapes["layers.0.attention.output.weight"] == std::pair<std::int64_t, std::int64_t>{8, 4});
  CHECK(shapes["layers.0.attention.output.bias"] == std::pair<std::int64_t, std::int64_t>{8, 1});
  CHECK(shapes["layers.0.up.bias"] == std::pair<std::int64_t, std::int64_t>{16, 1});
  // Megatron's count: two all-reduces forward and two backward per layer (attention and MLP), one
  // for the embedding; the head's input gradient adds one in backward.
  int forward = 0;
  int backward = 0;
  for (const Body& body : program.classes[0].bodies) {
    for (const Operation& o : body.operations) {
      if (o.code == OpCode::kTensorAllReduce)
        ++(body.kind == BodyKind::kForward ? forward : backward);
    }
  }
  CHECK(forward == 3);
  CHECK(backward == 3);
}

TEST_CASE("in-flight activations follow the schedule", "[core]") {
  const Model model = tied_decoder(2);
  const auto peak = [&](const std::string& layout, int position) {
    Workload w = small_workload();
    w.global_batch = 16;
    const Program p = lower(model, w, parse_layout(layout), Stack{});
    return replay_memory(p.classes[position], p.precision).peak.of(TensorKind::kActivation).value;
  };
  // gpipe holds all 8 microbatches, 1f1b at most 2 on the first of two stages.
  const auto gpipe = peak("pp=2,microbatches=8,schedule=gpipe,stages=2+2", 0);
  const auto one = peak("pp=2,microbatches=8,schedule=1f1b,stages=2+2", 0);
  CHECK(gpipe > 3 * one);
}
