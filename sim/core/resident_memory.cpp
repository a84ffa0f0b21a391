#include "sim/core/resident_memory.hpp"

#include <algorithm>
#include <set>

#include "sim/core/offset_allocator.hpp"
#include "sim/core/positions.hpp"

namespace parplan {

FlatBuffers flat_buffers(std::int64_t elements, DType precision) {
  const Bytes state{elements * bytes_of(state_type(precision))};
  return {Bytes{elements * bytes_of(precision)}, is_half(precision) ? state : Bytes{0}, state,
          state};
}

RankBlock rank_block(const FlatBuffers& flat, Bytes arena) {
  RankBlock block;
  const auto place = [&block](Bytes& at, Bytes size) {
    const std::int64_t alignment = OffsetAllocator::kAlignment;
    at = block.size;
    block.size += Bytes{(size.value + alignment - 1) / alignment * alignment};
  };
  place(block.parameters, flat.parameters);
  place(block.master_weights, flat.master_weights);
  place(block.gradients, flat.gradients);
  place(block.first_moment, flat.moment);
  place(block.second_moment, flat.moment);
  block.arena = block.size;
  block.size += arena;
  return block;
}

Bytes resident_block_bytes(const RankClass& rank_class, DType precision, Bytes arena) {
  return resident_bytes(rank_block(flat_buffers(rank_class.flat_elements, precision), arena).size);
}

Bytes widening_bytes(const RankClass& rank_class) {
  std::int64_t most = 0;
  for (const Body& body : rank_class.bodies) {
    for (const Operation& operation : body.operations) {
      if (operation.code == OpCode::kLoadInput || is_tensor_collective(operation.code)) continue;
      std::set<std::uint32_t> operands;
      for (const TensorId input : operation.inputs) operands.insert(input.index);
      for (const Output& output : operation.outputs) operands.insert(output.tensor.index);
      std::int64_t sum = 0;
      for (const std::uint32_t id : operands) {
        const Tensor& tensor = rank_class.tensors[id];
        if (is_half(tensor.dtype)) sum += widened_place(tensor.elements());
      }
      most = std::max(most, sum);
    }
  }
  return Bytes{most * bytes_of(DType::kFloat32)};
}

Bytes kept_input_bytes(const Value& value, const Workload& workload) {
  const bool real = value.role == ValueRole::kFeatures || value.role == ValueRole::kRealTarget;
  if (!real || workload.data.kind != DataKind::kSynthetic) return Bytes{0};
  const Bytes size{workload.data.samples * positions_of(value, workload) * value.features *
                   bytes_of(workload.precision)};
  return size <= kResidentInputLimit ? size : Bytes{0};
}

Bytes resident_input_bytes(const RankClass& rank_class, const Model& model,
                           const Workload& workload) {
  Bytes sum{0};
  for (const Tensor& tensor : rank_class.tensors) {
    if (tensor.kind == TensorKind::kInput && tensor.value) {
      sum += resident_bytes(kept_input_bytes(model.value(*tensor.value), workload));
    }
  }
  return sum;
}

}  // namespace parplan
