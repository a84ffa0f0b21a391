#pragma once

#include <compare>
#include <cstdint>

#include "sim/core/model.hpp"

namespace parplan {

/// What beside code and shape changes an operation's cost.
struct OpVariant {
  bool dropout = false;     ///< a mask is drawn (attention, activation, residual, dropout)
  bool causal = false;      ///< attention
  bool accumulate = false;  ///< the first output is added to
  Activation function = Activation::kRelu;  ///< activation

  friend constexpr auto operator<=>(const OpVariant&, const OpVariant&) = default;
};

/// The variant of an operation of this model op.
OpVariant variant_of(const OpBody& body, bool accumulate);

}  // namespace parplan
