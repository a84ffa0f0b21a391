#include "sim/core/op_code.hpp"

#include <array>
#include <utility>

namespace parplan {

std::string_view name_of(OpCode code) {
  switch (code) {
    case OpCode::kLoadInput:
      return "load_input";
    case OpCode::kEmbeddingForward:
      return "embedding_forward";
    case OpCode::kEmbeddingBackward:
      return "embedding_backward";
    case OpCode::kPositionForward:
      return "position_forward";
    case OpCode::kPositionBackward:
      return "position_backward";
    case OpCode::kLinearForward:
      return "linear_forward";
    case OpCode::kLinearBackwardInput:
      return "linear_backward_input";
    case OpCode::kLinearBackwardWeight:
      return "linear_backward_weight";
    case OpCode::kBiasForward:
      return "bias_forward";
    case OpCode::kActivationForward:
      return "activation_forward";
    case OpCode::kActivationBackward:
      return "activation_backward";
    case OpCode::kSwigluForward:
      return "swiglu_forward";
    case OpCode::kSwigluBackward:
      return "swiglu_backward";
    case OpCode::kResidualForward:
      return "residual_forward";
    case OpCode::kDropoutForward:
      return "dropout_forward";
    case OpCode::kDropoutBackward:
      return "dropout_backward";
    case OpCode::kLayerNormForward:
      return "layer_norm_forward";
    case OpCode::kLayerNormBackward:
      return "layer_norm_backward";
    case OpCode::kRmsNormForward:
      return "rms_norm_forward";
    case OpCode::kRmsNormBackward:
      return "rms_norm_backward";
    case OpCode::kRotaryForward:
      return "rotary_forward";
    case OpCode::kRotaryBackward:
      return "rotary_backward";
    case OpCode::kAttentionForward:
      return "attention_forward";
    case OpCode::kAttentionBackward:
      return "attention_backward";
    case OpCode::kCrossEntropyStats:
      return "cross_entropy_stats";
    case OpCode::kCrossEntropyLoss:
      return "cross_entropy_loss";
    case OpCode::kCrossEntropyBackward:
      return "cross_entropy_backward";
    case OpCode::kSquaredErrorForward:
      return "squared_error_forward";
    case OpCode::kSquaredErrorBackward:
      return "squared_error_backward";
    case OpCode::kAdd:
      return "add";
    case OpCode::kInterleaveColumns:
      return "interleave_columns";
    case OpCode::kSliceColumns:
      return "slice_columns";
    case OpCode::kTensorAllReduce:
      return "tensor_all_reduce";
    case OpCode::kTensorAllGather:
      return "tensor_all_gather";
    case OpCode::kAdam:
      return "adam";
    case OpCode::kGradientNorm:
      return "gradient_norm";
    case OpCode::kCount:
      break;
  }
  return "";
}

std::optional<OpCode> op_code_from_name(std::string_view name) {
  for (int i = 0; i < static_cast<int>(OpCode::kCount); ++i) {
    if (name_of(static_cast<OpCode>(i)) == name) return static_cast<OpCode>(i);
  }
  return std::nullopt;
}

namespace {
constexpr std::array<std::pair<CollectiveKind, std::string_view>, 6> kCollectives{{
    {CollectiveKind::kAllReduce, "all_reduce"},
    {CollectiveKind::kAllGather, "all_gather"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"},
    {CollectiveKind::kAllToAll, "all_to_all"},
    {CollectiveKind::kBroadcast, "broadcast"},
    {CollectiveKind::kSendReceive, "send_receive"},
}};
}  // namespace

std::string_view name_of(CollectiveKind kind) {
  return kCollectives[static_cast<std::size_t>(kind)].second;
}

std::optional<CollectiveKind> collective_from_name(std::string_view name) {
  for (const auto& [kind, text] : kCollectives) {
    if (text == name) return kind;
  }
  return std::nullopt;
}

}  // namespace parplan
