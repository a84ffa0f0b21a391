#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace parplan {

/// An index into one particular vector; ids of different vectors do not mix.
template <class Tag>
struct Id {
  std::uint32_t index = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t i) : index(static_cast<std::uint32_t>(i)) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using ValueId = Id<struct ValueTag>;          ///< Model::values
using ParameterId = Id<struct ParameterTag>;  ///< Model::parameters
using OpId = Id<struct OpTag>;                ///< Model::ops
using LayerId = Id<struct LayerTag>;          ///< Model::layers
using TensorId = Id<struct TensorTag>;        ///< RankClass::tensors

}  // namespace parplan
