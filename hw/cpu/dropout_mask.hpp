#pragma once

#include <cstdint>

#include "hw/cpu/vector_math.hpp"
#include "hw/random.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {

/// A DropoutSpec made ready for the inner loops of kernels over elements of type T.
template <class T>
class DropoutMask {
 public:
  explicit DropoutMask(const DropoutSpec& spec)
      : spec_(spec),
        threshold_(checked_threshold(spec.p)),
        scale_(static_cast<T>(1.0 / (1.0 - spec.p))) {}

  /// Whether anything can be dropped.
  [[nodiscard]] PARPLAN_ALWAYS_INLINE bool active() const { return threshold_ != 0; }
  /// Factor of what is kept.
  [[nodiscard]] PARPLAN_ALWAYS_INLINE T scale() const { return scale_; }

  /// The mask of one row from local column `col` on.
  class Row {
   public:
    PARPLAN_ALWAYS_INLINE Row(DropoutKey key, std::uint32_t col, std::uint32_t threshold, T scale)
        : key_(key), col_(col), threshold_(threshold), scale_(scale) {}
    /// `value` scaled if element `i` from there is kept, 0 otherwise.
    [[nodiscard]] PARPLAN_ALWAYS_INLINE T apply(T value, std::int32_t i) const {
      const std::uint32_t hash = dropout_hash(key_, col_ + static_cast<std::uint32_t>(i));
      return hash < threshold_ ? T{0} : value * scale_;
    }

   private:
    DropoutKey key_;
    std::uint32_t col_;
    std::uint32_t threshold_;
    T scale_;
  };
  [[nodiscard]] PARPLAN_ALWAYS_INLINE Row row(std::int64_t row, std::int64_t col) const {
    return Row(dropout_row_key(spec_.key, static_cast<std::uint64_t>(spec_.row_offset + row)),
               static_cast<std::uint32_t>(spec_.col_offset + col), threshold_, scale_);
  }

 private:
  static std::uint32_t checked_threshold(double p) {
    ensure(p >= 0.0 && p < 1.0, "a dropout probability lies in [0, 1)");
    return dropout_threshold(p);
  }

  DropoutSpec spec_;
  std::uint32_t threshold_;
  T scale_;
};

}  // namespace parplan::hw
