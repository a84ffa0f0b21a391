#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace parplan::sim {

/// Measured costs over a few logarithmic coordinates, interpolated in between.
///
/// A point is (x, log of the time per unit of work). `at` fits log y = b0 + b . (x - x0) to the
/// nearest points, weighted by 1 / (distance^2 + 0.01), with a ridge on b that grows where the
/// neighbours do not determine a slope, and returns b0. Inside a grid this follows efficiency
/// curves and their bends; outside it continues the slope of the edge. A point hit exactly (to
/// 1e-9) is returned as it was measured.
class SampleTable {
 public:
  static constexpr std::size_t kCoordinates = 5;
  using Coordinates = std::array<double, kCoordinates>;  ///< unused ones are 0

  void add(const Coordinates& x, double log_y);
  bool empty() const { return points_.empty(); }
  std::size_t size() const { return points_.size(); }

  struct Estimate {
    double log_y = 0.0;
    bool exact = false;
    double distance = 0.0;  ///< to the nearest point
  };
  /// Nothing when the table is empty.
  std::optional<Estimate> at(const Coordinates& x) const;
  /// The same as if points at x itself had not been measured.
  std::optional<Estimate> at_without(const Coordinates& x) const;

 private:
  struct Point {
    Coordinates x;
    double log_y;
  };
  std::optional<Estimate> estimate(const Coordinates& x, bool with_exact) const;

  std::vector<Point> points_;
};

}  // namespace parplan::sim
