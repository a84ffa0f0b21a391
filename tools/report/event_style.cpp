#include "tools/report/event_style.hpp"

#include "sim/core/op_code.hpp"

namespace parplan::tools {
namespace {

EventStyle style_of_operation(OpCode code) {
  switch (code) {
    case OpCode::kLinearForward:
    case OpCode::kLinearBackwardInput:
    case OpCode::kLinearBackwardWeight:
    case OpCode::kBiasForward:
      return EventStyle::kLinear;
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
      return EventStyle::kAttention;
    case OpCode::kLoadInput:
    case OpCode::kEmbeddingForward:
    case OpCode::kEmbeddingBackward:
    case OpCode::kPositionForward:
    case OpCode::kPositionBackward:
    case OpCode::kCrossEntropyStats:
    case OpCode::kCrossEntropyLoss:
    case OpCode::kCrossEntropyBackward:
    case OpCode::kSquaredErrorForward:
    case OpCode::kSquaredErrorBackward:
      return EventStyle::kEnds;
    case OpCode::kTensorAllReduce:
    case OpCode::kTensorAllGather:
      return EventStyle::kTensorCollective;
    case OpCode::kAdam:
    case OpCode::kGradientNorm:
      return EventStyle::kOptimizer;
    case OpCode::kActivationForward:
    case OpCode::kActivationBackward:
    case OpCode::kSwigluForward:
    case OpCode::kSwigluBackward:
    case OpCode::kResidualForward:
    case OpCode::kDropoutForward:
    case OpCode::kDropoutBackward:
    case OpCode::kLayerNormForward:
    case OpCode::kLayerNormBackward:
    case OpCode::kRmsNormForward:
    case OpCode::kRmsNormBackward:
    case OpCode::kRotaryForward:
    case OpCode::kRotaryBackward:
    case OpCode::kAdd:
    case OpCode::kInterleaveColumns:
    case OpCode::kSliceColumns:
    case OpCode::kCount:
      break;
  }
  return EventStyle::kPointwise;
}

struct StyleText {
  std::string_view name;
  std::string_view css;
};
constexpr std::array<StyleText, kEventStyles> kTexts{{
    {"linear (GEMM)", "k-linear"},
    {"attention", "k-attention"},
    {"norms and elementwise", "k-pointwise"},
    {"embedding and loss", "k-ends"},
    {"optimizer", "k-optimizer"},
    {"tensor-parallel collective", "k-tensor"},
    {"send and receive", "k-point"},
    {"gradient all-reduce", "k-gradient"},
    {"tied-parameter all-reduce", "k-tied"},
}};

}  // namespace

EventStyle style_of(Key key) {
  switch (key.phase()) {
    case Phase::kForward:
    case Phase::kBackward:
      return style_of_operation(static_cast<OpCode>(key.code()));
    case Phase::kSendActivation:
    case Phase::kReceiveActivation:
    case Phase::kSendGradient:
    case Phase::kReceiveGradient:
      return EventStyle::kPointToPoint;
    case Phase::kReduceGradients:
      return EventStyle::kGradientReduction;
    case Phase::kReduceTied:
      return EventStyle::kTiedReduction;
    case Phase::kOptimizer:
    case Phase::kGradientNorm:
    case Phase::kReduceNorm:
      return EventStyle::kOptimizer;
    case Phase::kStep:
      break;
  }
  return EventStyle::kPointwise;
}

std::string_view name_of(EventStyle style) { return kTexts[static_cast<std::size_t>(style)].name; }
std::string_view css_of(EventStyle style) { return kTexts[static_cast<std::size_t>(style)].css; }
bool has_backward(EventStyle style) { return style <= EventStyle::kEnds; }

}  // namespace parplan::tools
