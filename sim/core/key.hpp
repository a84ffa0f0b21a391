#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "sim/core/model.hpp"

namespace parplan {

/// What part of a step a key names.
enum class Phase : std::uint8_t {
  kForward,
  kBackward,
  kSendActivation,     ///< `op` = value id
  kReceiveActivation,  ///< `op` = value id
  kSendGradient,       ///< `op` = value id
  kReceiveGradient,    ///< `op` = value id
  kReduceGradients,    ///< over dp; `op` = bucket
  kReduceTied,         ///< over the stages that share a parameter; `op` = parameter id
  kOptimizer,          ///< `op` = bucket
  kStep,               ///< the whole step of a rank
  kGradientNorm,
  kReduceNorm,  ///< over the ranks of a replica
};

/// The stable name of one instruction or operation, equal in prediction and measurement and over
/// ranks of one class: a packed integer, text only on output.
struct Key {
  std::uint64_t packed = 0;

  static constexpr std::uint32_t kNone = 0xFFF;  ///< layer of a key that belongs to no layer

  constexpr Key() = default;
  constexpr Key(Phase phase, std::uint32_t chunk, std::uint32_t microbatch, std::uint32_t layer,
                std::uint32_t op, std::uint32_t code)
      : packed((std::uint64_t{static_cast<std::uint8_t>(phase)} << 60) |
               (std::uint64_t{chunk & 0x3FFU} << 50) | (std::uint64_t{microbatch & 0xFFFFU} << 34) |
               (std::uint64_t{layer & 0xFFFU} << 22) | (std::uint64_t{op & 0x3FFFU} << 8) |
               (code & 0xFFU)) {}

  constexpr Phase phase() const { return static_cast<Phase>(packed >> 60); }
  constexpr std::uint32_t chunk() const { return (packed >> 50) & 0x3FF; }
  constexpr std::uint32_t microbatch() const { return (packed >> 34) & 0xFFFF; }
  constexpr std::uint32_t layer() const { return (packed >> 22) & 0xFFF; }
  constexpr std::uint32_t op() const { return (packed >> 8) & 0x3FFF; }
  constexpr std::uint32_t code() const { return packed & 0xFF; }
  /// A key of a whole chunk-level instruction carries this code.
  static constexpr std::uint32_t kWholeInstruction = 0xFF;

  friend constexpr auto operator<=>(const Key&, const Key&) = default;
};

/// "forward/chunk 0/microbatch 5/layers.3/self_attention.query/linear_forward".
std::string to_string(Key key, const Model& model);

}  // namespace parplan
