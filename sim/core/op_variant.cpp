#include "sim/core/op_variant.hpp"

#include <type_traits>
#include <variant>

namespace parplan {

OpVariant variant_of(const OpBody& body, bool accumulate) {
  OpVariant variant;
  variant.accumulate = accumulate;
  std::visit(
      [&variant](const auto& op) {
        using T = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<T, AttentionOp>) variant.causal = op.causal;
        if constexpr (std::is_same_v<T, ActivationOp>) variant.function = op.function;
        if constexpr (std::is_same_v<T, AttentionOp> || std::is_same_v<T, ActivationOp> ||
                      std::is_same_v<T, ResidualOp> || std::is_same_v<T, DropoutOp>) {
          variant.dropout = op.dropout > 0.0;
        }
      },
      body);
  return variant;
}

}  // namespace parplan
