#pragma once

#include <array>
#include <string_view>

#include "sim/core/key.hpp"

namespace parplan::tools {

/// What a bar of the timeline is coloured by.
enum class EventStyle : std::uint8_t {
  kLinear,
  kAttention,
  kPointwise,  ///< norms, activations, residuals, dropout, rotary
  kEnds,       ///< input, embedding, loss
  kOptimizer,
  kTensorCollective,
  kPointToPoint,  ///< between stages or devices
  kGradientReduction,
  kTiedReduction,
  kCount
};
inline constexpr std::size_t kEventStyles = static_cast<std::size_t>(EventStyle::kCount);

EventStyle style_of(Key key);
/// Words for the legend.
std::string_view name_of(EventStyle style);
/// CSS class that carries the colour: "k-linear", ...
std::string_view css_of(EventStyle style);
/// Whether forward and backward of this style have shades of their own.
bool has_backward(EventStyle style);

}  // namespace parplan::tools
