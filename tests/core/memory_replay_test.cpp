#include "sim/core/memory_replay.hpp"

#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/workspace.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

TensorId add_tensor(RankClass& rank_class, TensorKind kind, std::int64_t elements) {
  Tensor tensor;
  tensor.kind = kind;
  tensor.rows = 1;
  tensor.columns = elements;
  rank_class.tensors.push_back(tensor);
  return TensorId{rank_class.tensors.size() - 1};
}

Operation operation(std::vector<TensorId> inputs, const std::vector<TensorId>& outputs,
                    std::vector<TensorId> allocates, std::vector<TensorId> frees) {
  Operation result;
  result.code = OpCode::kAdd;
  result.inputs = std::move(inputs);
  for (const TensorId tensor : outputs) result.outputs.push_back({tensor, Write::kOverwrite});
  result.allocates = std::move(allocates);
  result.frees = std::move(frees);
  return result;
}

Instruction run_body(std::int32_t body, std::int32_t microbatch, std::int32_t operations) {
  Instruction instruction;
  instruction.kind = InstructionKind::kRun;
  instruction.body = body;
  instruction.microbatch = microbatch;
  instruction.op_end = operations;
  return instruction;
}

/// Forward makes `activation` with a workspace, backward turns it into `gradient` and frees both.
struct TwoPasses {
  RankClass rank_class;
  TensorId activation;
  TensorId gradient;
  TensorId workspace;

  TwoPasses() {
    rank_class.flat_elements = 32;
    activation = add_tensor(rank_class, TensorKind::kActivation, 100);
    gradient = add_tensor(rank_class, TensorKind::kActivationGradient, 50);
    workspace = add_tensor(rank_class, TensorKind::kWorkspace, 10);
    Operation forward = operation({}, {activation}, {activation}, {});
    forward.workspace = workspace;
    const Operation backward =
        operation({activation}, {gradient}, {gradient}, {activation, gradient});
    rank_class.bodies.push_back({BodyKind::kForward, 0, {forward}});
    rank_class.bodies.push_back({BodyKind::kBackward, 0, {backward}});
  }
};

}  // namespace

TEST_CASE("replay reports memory by kind at every operation", "[core]") {
  TwoPasses passes;
  // Two microbatches, both forwards first: two activations live when the first backward runs.
  passes.rank_class.instructions = {run_body(0, 0, 1), run_body(0, 1, 1), run_body(1, 0, 1),
                                    run_body(1, 1, 1)};
  const MemoryReplay replay = replay_memory(passes.rank_class, DType::kFloat32);
  CHECK(replay.flat == Bytes{4 * 32 * 4});  // parameters, gradients, two moments
  REQUIRE(replay.points.size() == 4);
  CHECK(replay.points[0].live.of(TensorKind::kActivation) == Bytes{400});
  CHECK(replay.points[0].live.of(TensorKind::kWorkspace) == Bytes{40});
  CHECK(replay.points[1].live.of(TensorKind::kActivation) == Bytes{800});
  CHECK(replay.points[2].live.of(TensorKind::kActivationGradient) == Bytes{200});
  CHECK(replay.points[3].live.of(TensorKind::kActivation) == Bytes{400});
  CHECK(replay.peak_point == 2);
  CHECK(replay.peak.total() == Bytes{512 + 800 + 200});
  // 448 (activation 0) + 64 (workspace, then free) + ... : activation 1 starts at 448 after the
  // workspace of microbatch 0 was freed there, its workspace and the gradient follow at 896.
  CHECK(replay.arena == Bytes{896 + 256});
}

TEST_CASE("an instruction frees the instances that it names before it starts", "[core]") {
  RankClass rank_class;
  const TensorId sent = add_tensor(rank_class, TensorKind::kActivation, 16);
  rank_class.bodies.push_back({BodyKind::kForward, 0, {operation({}, {sent}, {sent}, {})}});
  const auto send = [&](std::int32_t microbatch) {
    Instruction instruction;
    instruction.kind = InstructionKind::kSend;
    instruction.tensor = sent;
    instruction.microbatch = microbatch;
    return instruction;
  };
  // run 0, send 0, run 1, send 1, run 2 (frees 0), send 2, optimizer (frees 1 and 2)
  rank_class.instructions = {run_body(0, 0, 1), send(0),           run_body(0, 1, 1),
                             send(1),           run_body(0, 2, 1), send(2)};
  rank_class.instructions[4].waits = {1};
  rank_class.instructions[4].frees_before = {{sent, 0}};
  Instruction last;
  last.kind = InstructionKind::kOptimizer;
  last.waits = {3, 5};
  last.frees_before = {{sent, 1}, {sent, 2}};
  rank_class.instructions.push_back(last);

  MemoryCursor cursor(rank_class, DType::kFloat32);
  for (std::size_t i = 0; i < 6; ++i) {
    cursor.begin(rank_class.instructions[i]);
    if (i % 2 == 0) {
      cursor.begin(rank_class.bodies[0].operations[0], static_cast<std::int32_t>(i / 2));
    }
  }
  CHECK_THROWS_AS(cursor.offset({sent, 0}), InternalError);
  CHECK(cursor.offset({sent, 1}) == 64);
  CHECK(cursor.offset({sent, 2}) == 0);  // the place of microbatch 0
  cursor.begin(last);
  CHECK(cursor.live_instances() == 0);
  CHECK(replay_memory(rank_class, DType::kFloat32).arena == Bytes{128});
}

TEST_CASE("programs that misuse a tensor are refused by the replay", "[core]") {
  const auto replays = [](const RankClass& rank_class) {
    return replay_memory(rank_class, DType::kFloat32);
  };
  TwoPasses passes;
  passes.rank_class.instructions = {run_body(0, 0, 1), run_body(1, 0, 1)};
  CHECK_NOTHROW(replays(passes.rank_class));

  TwoPasses leaks = passes;
  leaks.rank_class.instructions.pop_back();
  CHECK_THROWS_WITH(replays(leaks.rank_class), ContainsSubstring("frees every tensor"));

  TwoPasses twice = passes;
  twice.rank_class.instructions.insert(twice.rank_class.instructions.begin(), run_body(0, 0, 1));
  CHECK_THROWS_WITH(replays(twice.rank_class), ContainsSubstring("allocated twice"));

  TwoPasses unborn = passes;
  std::swap(unborn.rank_class.instructions[0], unborn.rank_class.instructions[1]);
  CHECK_THROWS_WITH(replays(unborn.rank_class), ContainsSubstring("is used while it is not"));

  TwoPasses wrong_microbatch = passes;
  wrong_microbatch.rank_class.instructions[1].microbatch = 1;
  CHECK_THROWS_WITH(replays(wrong_microbatch.rank_class), ContainsSubstring("microbatch 1"));
}

TEST_CASE("workspace follows the formulas of its header", "[core]") {
  OpShape norm;
  norm.rows = 7;
  norm.columns = 512;
  CHECK(workspace_bytes(OpCode::kLayerNormBackward, norm, DType::kFloat32) == Bytes{4096});
  CHECK(workspace_bytes(OpCode::kRmsNormBackward, norm, DType::kFloat64) == Bytes{4096});
  CHECK(workspace_bytes(OpCode::kLinearForward, norm, DType::kFloat32) == Bytes{0});
}

TEST_CASE("attention's workspace is its tiles", "[core]") {
  OpShape shape;
  shape.queries = 100;  // 112 padded
  shape.keys = 300;     // a tile of 128
  shape.head_dim = 20;  // 32 padded
  // 20 x 112 + 128 x 112 + 128 x 32 + 112 x 32 = 24256
  CHECK(workspace_bytes(OpCode::kAttentionForward, shape, DType::kFloat32) == Bytes{4 * 24256});
  // 2 x 2240 + 2 x 14336 + 3 x 3584 + 3 x 4096 = 56192
  CHECK(workspace_bytes(OpCode::kAttentionBackward, shape, DType::kFloat64) == Bytes{8 * 56192});
}
