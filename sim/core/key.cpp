#include "sim/core/key.hpp"

#include <array>
#include <string_view>

#include "sim/core/op_code.hpp"

namespace parplan {
namespace {

constexpr std::array<std::string_view, 12> kPhases{"forward",          "backward",
                                                   "send activation",  "receive activation",
                                                   "send gradient",    "receive gradient",
                                                   "reduce gradients", "reduce tied",
                                                   "optimizer",        "step",
                                                   "gradient norm",    "reduce norm"};

std::string layer_path(Key key, const Model& model) {
  if (key.layer() >= model.layers.size()) return {};
  const Layer& layer = model.layers[key.layer()];
  std::string path = "/" + layer.name;
  if (key.op() >= layer.count) return path;
  const std::string& op = model.ops[layer.first.index + key.op()].name;
  return op == layer.name ? path : path + "/" + op;
}

}  // namespace

std::string to_string(Key key, const Model& model) {
  const auto phase = static_cast<std::size_t>(key.phase());
  std::string text(phase < kPhases.size() ? kPhases[phase] : "unknown");
  const std::string chunk = "/chunk " + std::to_string(key.chunk());
  const std::string microbatch = "/microbatch " + std::to_string(key.microbatch());
  switch (key.phase()) {
    case Phase::kForward:
    case Phase::kBackward:
      text += chunk + microbatch + layer_path(key, model);
      if (key.code() != Key::kWholeInstruction) {
        text += "/" + std::string(name_of(static_cast<OpCode>(key.code())));
      }
      return text;
    case Phase::kSendActivation:
    case Phase::kReceiveActivation:
    case Phase::kSendGradient:
    case Phase::kReceiveGradient: {
      const bool known = key.op() < model.values.size();
      return text + chunk + microbatch + "/" +
             (known ? model.values[key.op()].name : std::to_string(key.op()));
    }
    case Phase::kReduceGradients:
    case Phase::kOptimizer:
      return text + "/bucket " + std::to_string(key.op());
    case Phase::kReduceTied:
      return text + "/" +
             (key.op() < model.parameters.size() ? model.parameters[key.op()].name
                                                 : std::to_string(key.op()));
    case Phase::kStep:
    case Phase::kGradientNorm:
    case Phase::kReduceNorm:
      break;
  }
  return text;
}

}  // namespace parplan
