#include "hw/cpu/gradient_norm.hpp"

#include <array>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/vector_math.hpp"

namespace parplan::hw {
namespace {

constexpr std::int32_t kLanes = 16;
using Lanes = std::array<double, kLanes>;

template <class T>
PARPLAN_VECTOR_CLONES void add_squares(const T* x, std::int32_t count, Lanes& lanes) {
  Lanes sums = lanes;
  std::int32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma omp simd
    for (std::int32_t k = 0; k < kLanes; ++k) {
      const auto value = static_cast<double>(x[i + k]);
      sums[static_cast<std::size_t>(k)] += value * value;
    }
  }
  for (std::int32_t k = 0; i + k < count; ++k) {
    const auto value = static_cast<double>(x[i + k]);
    sums[static_cast<std::size_t>(k)] += value * value;
  }
  lanes = sums;
}

}  // namespace

template <class T>
double squared_norm(const T* gradients, std::span<const NormRange> ranges,
                    const KernelContext& context) {
  double norm = 0.0;
  for (const NormRange& range : ranges) {
    double sum = 0.0;
    // Blocks by themselves: the error grows with their length and their number, not the product.
    for_each_block({1, range.end - range.begin}, context, [&](const Block& block) {
      Lanes lanes{};
      add_squares(gradients + range.begin + block.col, static_cast<std::int32_t>(block.cols),
                  lanes);
      double of_block = 0.0;
      for (const double lane : lanes) of_block += lane;
      sum += of_block;
    });
    norm += range.share * sum;
  }
  return norm;
}

template double squared_norm(const float*, std::span<const NormRange>, const KernelContext&);
template double squared_norm(const double*, std::span<const NormRange>, const KernelContext&);

}  // namespace parplan::hw
