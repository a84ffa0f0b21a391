#include "sim/sample_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace parplan::sim {
namespace {

constexpr std::size_t kNeighbours = 12;
constexpr std::size_t kUnknowns = SampleTable::kCoordinates + 1;
constexpr double kRidge = 0.02;
constexpr double kExact = 1e-18;  // squared distance of a point that is hit

double squared_distance(const SampleTable::Coordinates& a, const SampleTable::Coordinates& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

using Matrix = std::array<std::array<double, kUnknowns + 1>, kUnknowns>;

/// Solves the normal equations by elimination with pivoting; returns the constant term.
double constant_term(Matrix& m) {
  for (std::size_t column = 0; column < kUnknowns; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < kUnknowns; ++row) {
      if (std::abs(m[row][column]) > std::abs(m[pivot][column])) pivot = row;
    }
    std::swap(m[column], m[pivot]);
    for (std::size_t row = 0; row < kUnknowns; ++row) {
      if (row == column || m[column][column] == 0.0) continue;
      const double factor = m[row][column] / m[column][column];
      for (std::size_t k = column; k <= kUnknowns; ++k) m[row][k] -= factor * m[column][k];
    }
  }
  return m[0][kUnknowns] / m[0][0];
}

}  // namespace

void SampleTable::add(const Coordinates& x, double log_y) { points_.push_back({x, log_y}); }

std::optional<SampleTable::Estimate> SampleTable::at(const Coordinates& x) const {
  return estimate(x, true);
}

std::optional<SampleTable::Estimate> SampleTable::at_without(const Coordinates& x) const {
  return estimate(x, false);
}

std::optional<SampleTable::Estimate> SampleTable::estimate(const Coordinates& x,
                                                           bool with_exact) const {
  std::vector<std::pair<double, const Point*>> nearest;
  nearest.reserve(points_.size());
  for (const Point& p : points_) {
    const double distance = squared_distance(p.x, x);
    if (with_exact || distance >= kExact) nearest.emplace_back(distance, &p);
  }
  if (nearest.empty()) return std::nullopt;
  const std::size_t count = std::min(kNeighbours, nearest.size());
  std::partial_sort(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(count),
                    nearest.end());
  const double closest = nearest.front().first;
  if (closest < kExact) {
    double sum = 0.0;
    std::size_t hits = 0;
    for (; hits < count && nearest[hits].first < kExact; ++hits) sum += nearest[hits].second->log_y;
    return Estimate{sum / static_cast<double>(hits), true, 0.0};
  }
  Matrix m{};
  double weights = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const Point& p = *nearest[i].second;
    const double weight = 1.0 / (nearest[i].first + 0.01);
    weights += weight;
    std::array<double, kUnknowns> basis{1.0};
    for (std::size_t k = 0; k < kCoordinates; ++k) basis[k + 1] = p.x[k] - x[k];
    for (std::size_t row = 0; row < kUnknowns; ++row) {
      for (std::size_t k = 0; k < kUnknowns; ++k) m[row][k] += weight * basis[row] * basis[k];
      m[row][kUnknowns] += weight * basis[row] * p.log_y;
    }
  }
  for (std::size_t k = 1; k < kUnknowns; ++k) m[k][k] += kRidge * weights;
  return Estimate{constant_term(m), false, std::sqrt(closest)};
}

}  // namespace parplan::sim
