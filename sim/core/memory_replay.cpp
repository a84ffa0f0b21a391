#include "sim/core/memory_replay.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "sim/core/error.hpp"
#include "sim/core/resident_memory.hpp"

namespace parplan {
namespace {

std::uint64_t packed(TensorInstance instance) {
  return (std::uint64_t{instance.tensor.index} << 32) |
         static_cast<std::uint32_t>(instance.microbatch);
}

std::string describe(const RankClass& rank_class, TensorInstance instance) {
  const Tensor& tensor = rank_class.tensors.at(instance.tensor.index);
  return "tensor " + std::to_string(instance.tensor.index) + " (" +
         std::string(name_of(tensor.kind)) + ") of microbatch " +
         std::to_string(instance.microbatch) + " at position " +
         std::to_string(rank_class.position);
}

bool lists(const std::vector<TensorId>& tensors, TensorId wanted) {
  return std::find(tensors.begin(), tensors.end(), wanted) != tensors.end();
}

}  // namespace

Bytes MemoryByKind::total() const {
  return Bytes{std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})};
}

MemoryCursor::MemoryCursor(const RankClass& rank_class, DType precision) : rank_class_(rank_class) {
  const FlatBuffers flat = flat_buffers(rank_class.flat_elements, precision);
  live_.bytes[static_cast<std::size_t>(TensorKind::kParameter)] = flat.parameters.value;
  live_.bytes[static_cast<std::size_t>(TensorKind::kGradient)] = flat.gradients.value;
  live_.bytes[static_cast<std::size_t>(TensorKind::kOptimizerState)] = flat.optimizer_state().value;
}

bool MemoryCursor::is_flat(TensorId tensor) const {
  switch (rank_class_.tensors.at(tensor.index).kind) {
    case TensorKind::kParameter:
    case TensorKind::kGradient:
    case TensorKind::kOptimizerState:
      return true;
    case TensorKind::kInput:
    case TensorKind::kActivation:
    case TensorKind::kActivationGradient:
    case TensorKind::kCommunication:
    case TensorKind::kWorkspace:
      break;
  }
  return false;
}

void MemoryCursor::begin(const Instruction& instruction) {
  for (const TensorInstance& instance : instruction.frees_before) release(instance);
  for (const TensorId tensor : instruction.allocates) allocate({tensor, instruction.microbatch});
}

void MemoryCursor::begin(const Operation& operation, std::int32_t microbatch) {
  for (const TensorId tensor : operation.allocates) allocate({tensor, microbatch});
  if (operation.workspace && !lists(operation.allocates, *operation.workspace)) {
    allocate({*operation.workspace, microbatch});
  }
}

void MemoryCursor::end(const Operation& operation, std::int32_t microbatch) {
  for (const TensorId tensor : operation.frees) release({tensor, microbatch});
  if (operation.workspace && !lists(operation.allocates, *operation.workspace)) {
    release({*operation.workspace, microbatch});
  }
}

std::int64_t MemoryCursor::offset(TensorInstance instance) const {
  const auto place = places_.find(packed(instance));
  if (place == places_.end()) {
    throw InternalError(describe(rank_class_, instance) + " is used while it is not allocated");
  }
  return place->second;
}

void MemoryCursor::allocate(TensorInstance instance) {
  const Tensor& tensor = rank_class_.tensors.at(instance.tensor.index);
  const auto [place, inserted] = places_.emplace(packed(instance), 0);
  if (!inserted || is_flat(instance.tensor)) {
    throw InternalError(describe(rank_class_, instance) + " is allocated twice");
  }
  place->second = allocator_.allocate(tensor.bytes());
  live_.bytes[static_cast<std::size_t>(tensor.kind)] += tensor.bytes().value;
}

void MemoryCursor::release(TensorInstance instance) {
  const Tensor& tensor = rank_class_.tensors.at(instance.tensor.index);
  allocator_.release(offset(instance), tensor.bytes());
  places_.erase(packed(instance));
  live_.bytes[static_cast<std::size_t>(tensor.kind)] -= tensor.bytes().value;
}

namespace {

/// Replays one rank class, noting a point at every moment.
class Recorder {
 public:
  Recorder(const RankClass& rank_class, DType precision)
      : rank_class_(rank_class), cursor_(rank_class, precision) {
    result_.flat = cursor_.live().total();
    result_.peak = cursor_.live();
  }

  MemoryReplay run() {
    result_.points.reserve(moments());
    for (std::size_t i = 0; i < rank_class_.instructions.size(); ++i) step(i);
    ensure(cursor_.live_instances() == 0, "a training step frees every tensor that it allocates");
    result_.arena = cursor_.arena();
    return std::move(result_);
  }

 private:
  /// How many points there will be: of long steps they take hundreds of megabytes.
  std::size_t moments() const {
    std::size_t count = 0;
    for (const Instruction& i : rank_class_.instructions) {
      count +=
          i.kind == InstructionKind::kRun ? static_cast<std::size_t>(i.op_end - i.op_begin) : 1;
    }
    return count;
  }

  void step(std::size_t index) {
    const Instruction& instruction = rank_class_.instructions[index];
    cursor_.begin(instruction);
    if (instruction.kind != InstructionKind::kRun) {
      if (instruction.kind == InstructionKind::kSend ||
          instruction.kind == InstructionKind::kReceive) {
        check_live(instruction.tensor, instruction.microbatch);
      }
      note(index, -1);
      return;
    }
    const Body& body = rank_class_.bodies.at(static_cast<std::size_t>(instruction.body));
    for (std::int32_t k = instruction.op_begin; k < instruction.op_end; ++k) {
      const Operation& operation = body.operations.at(static_cast<std::size_t>(k));
      cursor_.begin(operation, instruction.microbatch);
      for (const TensorId tensor : operation.inputs) check_live(tensor, instruction.microbatch);
      for (const Output& output : operation.outputs) {
        check_live(output.tensor, instruction.microbatch);
      }
      note(index, k);
      cursor_.end(operation, instruction.microbatch);
    }
  }

  void check_live(TensorId tensor, std::int32_t microbatch) const {
    if (!cursor_.is_flat(tensor)) (void)cursor_.offset({tensor, microbatch});
  }

  void note(std::size_t instruction, std::int32_t operation) {
    if (cursor_.live().total() > result_.peak.total()) {
      result_.peak = cursor_.live();
      result_.peak_point = result_.points.size();
    }
    result_.points.push_back({static_cast<std::int32_t>(instruction), operation, cursor_.live()});
  }

  const RankClass& rank_class_;
  MemoryCursor cursor_;
  MemoryReplay result_;
};

}  // namespace

MemorySample sample_of(const MemoryByKind& live) {
  MemorySample sample;
  sample.parameters = live.of(TensorKind::kParameter);
  sample.gradients = live.of(TensorKind::kGradient);
  sample.moments = live.of(TensorKind::kOptimizerState);
  sample.activations = live.of(TensorKind::kInput) + live.of(TensorKind::kActivation) +
                       live.of(TensorKind::kActivationGradient);
  sample.buffers = live.of(TensorKind::kCommunication) + live.of(TensorKind::kWorkspace);
  return sample;
}

MemoryReplay replay_memory(const RankClass& rank_class, DType precision) {
  return Recorder(rank_class, precision).run();
}

}  // namespace parplan
