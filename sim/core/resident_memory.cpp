#include "sim/core/resident_memory.hpp"

#include "sim/core/offset_allocator.hpp"
#include "sim/core/positions.hpp"

namespace parplan {

RankBlock rank_block(Bytes flat, Bytes arena) {
  const std::int64_t alignment = OffsetAllocator::kAlignment;
  const Bytes part{(flat.value + alignment - 1) / alignment * alignment};
  return {Bytes{0}, part, part * 2, part * 3, part * 4, part * 4 + arena};
}

Bytes resident_block_bytes(const RankClass& rank_class, DType precision, Bytes arena) {
  const Bytes flat{rank_class.flat_elements * bytes_of(precision)};
  return resident_bytes(rank_block(flat, arena).size);
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
