#include "hw/executor/bound_step.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hw/world.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/small_models.hpp"
#include "tests/hw/training.hpp"

using namespace parplan;
using namespace parplan::hw;

namespace {

/// Walks through a bound step as the runner does and notes for every 64 bytes of the arena which
/// tensor of which microbatch was written there last. A read, or the end of a send, must find its
/// own tensor.
class ShadowRun {
 public:
  ShadowRun(const RankClass& rank_class, const BoundStep& step, const RankMemory& memory)
      : rank_class_(rank_class),
        step_(step),
        memory_(memory),
        owner_(static_cast<std::size_t>(memory.arena.size().value / OffsetAllocator::kAlignment)) {}

  /// What is wrong, one line each.
  std::vector<std::string> run() {
    for (std::size_t i = 0; i < step_.instructions.size(); ++i) run_instruction(i);
    for (const std::uint32_t i : sends_) read(sent(i), "a send at the end of the step");
    return problems_;
  }

 private:
  struct Operand {
    TensorInstance instance;
    const std::byte* place = nullptr;
  };

  void run_instruction(std::size_t i) {
    const Instruction& instruction = rank_class_.instructions[i];
    const BoundInstruction& bound = step_.instructions[i];
    for (const std::uint32_t wait : instruction.waits) {
      if (sends_.erase(wait) > 0) read(sent(wait), "a send that is waited for");
    }
    if (instruction.kind == InstructionKind::kSend) {
      read(sent(static_cast<std::uint32_t>(i)), "a send that starts");
      sends_.insert(static_cast<std::uint32_t>(i));
    } else if (instruction.kind == InstructionKind::kReceive) {
      write({{instruction.tensor, instruction.microbatch}, bound.data.data});
    } else if (instruction.kind == InstructionKind::kRun) {
      const Body& body = rank_class_.bodies[static_cast<std::size_t>(instruction.body)];
      for (std::int32_t k = instruction.op_begin; k < instruction.op_end; ++k) {
        run_operation(
            body.operations[static_cast<std::size_t>(k)],
            step_.operations[static_cast<std::size_t>(bound.op_begin + k - instruction.op_begin)],
            instruction.microbatch);
      }
    }
  }

  Operand sent(std::uint32_t i) const {
    const Instruction& instruction = rank_class_.instructions[i];
    return {{instruction.tensor, instruction.microbatch}, step_.instructions[i].data.data};
  }

  void run_operation(const parplan::Operation& operation, const BoundOperation& bound,
                     std::int32_t microbatch) {
    const std::string name(name_of(operation.code));
    for (std::size_t n = 0; n < operation.inputs.size(); ++n) {
      const std::byte* place =
          bound.kind == BoundOperation::Kind::kKernel ? bound.call.inputs[n].data : bound.part.data;
      read({{operation.inputs[n], microbatch}, place}, name);
    }
    if (operation.workspace) write({{*operation.workspace, microbatch}, bound.call.workspace});
    for (std::size_t n = 0; n < operation.outputs.size(); ++n) {
      const TensorInstance instance{operation.outputs[n].tensor, microbatch};
      if (bound.kind == BoundOperation::Kind::kKernel) {
        if (bound.call.accumulate[n])
          read({instance, bound.call.outputs[n].data}, name + " adds to");
        write({instance, bound.call.outputs[n].data});
      } else {
        write({instance,
               bound.kind == BoundOperation::Kind::kLoad ? bound.target : bound.whole.data});
      }
    }
  }

  bool in_flat_buffer(const Operand& operand) {
    const Tensor& tensor = rank_class_.tensors[operand.instance.tensor.index];
    if (tensor.kind != TensorKind::kParameter && tensor.kind != TensorKind::kGradient) return false;
    const DeviceRange& buffer =
        tensor.kind == TensorKind::kParameter ? memory_.parameters : memory_.gradients;
    const std::byte* expected = buffer.data() + tensor.flat_offset * bytes_of(tensor.dtype);
    if (operand.place != expected) problems_.push_back("a parameter is not at its flat offset");
    if (expected + tensor.bytes().value > buffer.data() + buffer.size().value) {
      problems_.push_back("a parameter reaches beyond its flat buffer");
    }
    return true;
  }

  /// The units of the arena that an operand covers.
  std::pair<std::size_t, std::size_t> units(const Operand& operand) {
    const Tensor& tensor = rank_class_.tensors[operand.instance.tensor.index];
    const std::int64_t offset = operand.place - memory_.arena.data();
    const std::int64_t end = offset + OffsetAllocator::rounded(tensor.bytes());
    if (offset < 0 || end > memory_.arena.size().value) {
      problems_.push_back("an operand lies outside the arena");
      return {0, 0};
    }
    return {static_cast<std::size_t>(offset / OffsetAllocator::kAlignment),
            static_cast<std::size_t>(end / OffsetAllocator::kAlignment)};
  }

  void write(const Operand& operand) {
    if (in_flat_buffer(operand)) return;
    const auto [first, last] = units(operand);
    for (std::size_t u = first; u < last; ++u) owner_[u] = operand.instance;
  }

  void read(const Operand& operand, const std::string& who) {
    if (in_flat_buffer(operand)) return;
    const auto [first, last] = units(operand);
    for (std::size_t u = first; u < last; ++u) {
      if (owner_[u] != operand.instance) {
        problems_.push_back(who + " finds another tensor in the place of tensor " +
                            std::to_string(operand.instance.tensor.index) + " of microbatch " +
                            std::to_string(operand.instance.microbatch));
        return;
      }
    }
  }

  const RankClass& rank_class_;
  const BoundStep& step_;
  const RankMemory& memory_;
  std::vector<std::optional<TensorInstance>> owner_;
  std::set<std::uint32_t> sends_;
  std::vector<std::string> problems_;
};

std::vector<std::string> problems_of(const Plan& plan) {
  const Program program = lower(plan);
  std::vector<std::string> all;
  std::mutex mutex;
  run_thread_ranks(program.ranks(), [&](World& world) {
    const MeshCoordinates where = coordinates_of(world.rank(), program.layout);
    const RankClass& rank_class = program.classes[static_cast<std::size_t>(where.position)];
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const RankMemory memory(*device, flat_buffers(rank_class.flat_elements, program.precision),
                            replay_memory(rank_class, program.precision).arena);
    RankGroups groups = create_groups(world, program);
    double loss = 0.0;
    const BoundStep step = bind_step({plan, program, where, memory, groups, &loss}, *device);
    const std::vector<std::string> problems = ShadowRun(rank_class, step, memory).run();
    const std::lock_guard lock(mutex);
    all.insert(all.end(), problems.begin(), problems.end());
  });
  return all;
}

}  // namespace

TEST_CASE("no operand is overwritten before its last use", "[hw]") {
  const Model model = GENERATE(small_mlp(), small_linear_pair(), small_seed_transformer(0.1),
                               small_encoder_decoder(0.1), small_gpt2(0.1), small_llama(true));
  for (const std::string layout :
       {"dp=2,microbatches=4", "tp=2,microbatches=2", "pp=2,schedule=gpipe,microbatches=8",
        "pp=2,schedule=1f1b,microbatches=8", "mp=2", "dp=2,tp=2,pp=2,schedule=1f1b,microbatches=4",
        "dp=2,tp=2,mp=2"}) {
    INFO(model.name << " with " << layout);
    CHECK(problems_of(small_plan(model, reference_workload(16, 6, 5), layout)) ==
          std::vector<std::string>{});
  }
}

TEST_CASE("operations are bound to their logical place and their microbatch", "[hw]") {
  // Replica 1 of 2, microbatch 1 of 2: samples 12..15 of 16; tensor rank 1 of 2.
  const Plan plan =
      small_plan(small_gpt2(0.1), reference_workload(16, 6), "dp=2,tp=2,microbatches=2");
  const Program program = lower(plan);
  run_thread_ranks(4, [&](World& world) {
    RankGroups groups = create_groups(world, program);
    if (world.rank() != 3) return;
    const RankClass& rank_class = program.classes[0];
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const RankMemory memory(*device, flat_buffers(rank_class.flat_elements, DType::kFloat64),
                            replay_memory(rank_class, program.precision).arena);
    double loss = 0.0;
    const BoundStep step = bind_step({plan, program, {0, 1, 1}, memory, groups, &loss}, *device);
    std::map<OpCode, std::vector<const BoundOperation*>> by_code;
    std::vector<const BoundOperation*> loads;
    for (const BoundOperation& operation : step.operations) {
      if (operation.kind == BoundOperation::Kind::kKernel) {
        by_code[operation.call.code].push_back(&operation);
      } else if (operation.kind == BoundOperation::Kind::kLoad) {
        loads.push_back(&operation);
      }
    }
    CHECK(loads.front()->first_sample == 8);
    CHECK(loads.back()->first_sample == 12);
    const BoundOperation& attention = *by_code[OpCode::kAttentionForward].back();
    CHECK(attention.drops);
    CHECK(attention.call.place.row_offset == 12);    // samples
    CHECK(attention.call.place.column_offset == 2);  // heads
    const BoundOperation& residual = *by_code[OpCode::kResidualForward].back();
    CHECK(residual.call.place.row_offset == 12 * 6);  // positions
    CHECK(residual.call.place.column_offset == 0);    // its columns are whole
    const BoundOperation& embedding = *by_code[OpCode::kEmbeddingForward].front();
    CHECK(embedding.call.place.column_offset == 31);  // of 61 rows in two shards of 31
    CHECK_FALSE(embedding.drops);
    CHECK(by_code[OpCode::kCrossEntropyBackward][0]->call.scale == 1.0 / (16 * 6));
    // The first microbatch stores weight gradients, the second adds; the tied embedding adds to the
    // head's in both.
    const auto& weights = by_code[OpCode::kLinearBackwardWeight];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      CHECK(weights[i]->call.accumulate[0] == (i >= weights.size() / 2));
    }
    for (const BoundOperation* table : by_code[OpCode::kEmbeddingBackward]) {
      CHECK(table->call.accumulate[0]);
    }
  });
}
