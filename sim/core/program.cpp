#include "sim/core/program.hpp"

namespace parplan {

std::string_view name_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::kParameter:
      return "parameters";
    case TensorKind::kGradient:
      return "gradients";
    case TensorKind::kOptimizerState:
      return "optimizer state";
    case TensorKind::kInput:
      return "inputs";
    case TensorKind::kActivation:
      return "activations";
    case TensorKind::kActivationGradient:
      return "activation gradients";
    case TensorKind::kCommunication:
      return "communication buffers";
    case TensorKind::kWorkspace:
      return "workspace";
  }
  return "";
}

std::string_view name_of(Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return "compute";
    case Stream::kPipelineSend:
      return "send";
    case Stream::kPipelineReceive:
      return "receive";
    case Stream::kDataParallel:
      return "comm.dp";
    case Stream::kTied:
      return "comm.tied";
    case Stream::kNorm:
      return "comm.norm";
  }
  return "";
}

Key operation_key(const Model& model, const Body& body, const Operation& operation,
                  std::int32_t microbatch) {
  const Phase phase = body.kind == BodyKind::kForward ? Phase::kForward : Phase::kBackward;
  const std::uint32_t first = model.layers[operation.layer.index].first.index;
  return Key(phase, static_cast<std::uint32_t>(body.chunk), static_cast<std::uint32_t>(microbatch),
             operation.layer.index, operation.op.index - first,
             static_cast<std::uint32_t>(operation.code));
}

MeshCoordinates coordinates_of(int rank, const Layout& layout) {
  return {rank / (layout.tp * layout.dp), (rank / layout.tp) % layout.dp, rank % layout.tp};
}

int rank_of(MeshCoordinates where, const Layout& layout) {
  return (where.position * layout.dp + where.replica) * layout.tp + where.tensor;
}

}  // namespace parplan
