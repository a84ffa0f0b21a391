#include "sim/core/resident_input.hpp"

#include "sim/core/positions.hpp"

namespace parplan {

Bytes resident_input_bytes(const Value& value, const Workload& workload) {
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
      sum += resident_input_bytes(model.value(*tensor.value), workload);
    }
  }
  return sum;
}

}  // namespace parplan
