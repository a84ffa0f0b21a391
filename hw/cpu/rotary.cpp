#include "hw/cpu/rotary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/vector_math.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

/// Cosine and sine of the angles of all pairs of a head.
template <class T>
struct Turn {
  std::array<T, kMaxRotaryHeadDim / 2> cosine;
  std::array<T, kMaxRotaryHeadDim / 2> sine;
};

/// The turn `a` followed by the turn `b`, rounded to T.
template <class T>
PARPLAN_VECTOR_CLONES void follow(const Turn<double>& a, const Turn<double>& b, std::int64_t half,
                                  Turn<T>& both) {
  const double* cos_a = a.cosine.data();
  const double* sin_a = a.sine.data();
  const double* cos_b = b.cosine.data();
  const double* sin_b = b.sine.data();
  T* cosine = both.cosine.data();
  T* sine = both.sine.data();
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    cosine[i] = static_cast<T>(cos_a[i] * cos_b[i] - sin_a[i] * sin_b[i]);
    sine[i] = static_cast<T>(sin_a[i] * cos_b[i] + cos_a[i] * sin_b[i]);
  }
}

/// The turns of positions. That of position p is the one of the multiple of kStride below p
/// followed by one of the kStride smallest, so the library's sines are taken for one position in
/// kStride only. It depends on p alone, not on what was asked before; its error is that of rounding
/// the angle to double, and 3 units.
class Turns {
 public:
  Turns(const double* frequencies, std::int64_t half, RotaryDirection direction)
      : frequencies_(frequencies),
        half_(half),
        sign_(direction == RotaryDirection::kForward ? 1.0 : -1.0) {}

  /// Any order will do; ascending is cheap.
  template <class T>
  void at(std::int64_t position, Turn<T>& turn) {
    const std::int64_t k = position % kStride;
    if (position - k != base_position_) {
      base_position_ = position - k;
      set(base_, base_position_);
    }
    for (; known_ <= k; ++known_) {
      set(small_[static_cast<std::size_t>(known_)], known_);
    }
    follow(base_, small_[static_cast<std::size_t>(k)], half_, turn);
  }

 private:
  static constexpr std::int64_t kStride = 16;

  void set(Turn<double>& turn, std::int64_t position) const {
    for (std::int64_t i = 0; i < half_; ++i) {
      const double angle = static_cast<double>(position) * frequencies_[i];
      turn.cosine[static_cast<std::size_t>(i)] = std::cos(angle);
      turn.sine[static_cast<std::size_t>(i)] = sign_ * std::sin(angle);
    }
  }

  const double* frequencies_;
  std::int64_t half_;
  double sign_;
  std::int64_t base_position_ = -1;
  std::int64_t known_ = 0;  // how many of the small turns are set
  Turn<double> base_;
  std::array<Turn<double>, kStride> small_;
};

template <class T>
PARPLAN_VECTOR_CLONES void turn_row(T* row, const Turn<T>& turn, std::int64_t heads,
                                    std::int64_t half) {
  const T* cosine = turn.cosine.data();
  const T* sine = turn.sine.data();
  for (std::int64_t head = 0; head < heads; ++head) {
    T* low = row + head * 2 * half;
    T* high = low + half;
#pragma omp simd
    for (std::int64_t i = 0; i < half; ++i) {
      const T a = low[i];
      const T b = high[i];
      low[i] = a * cosine[i] - b * sine[i];
      high[i] = b * cosine[i] + a * sine[i];
    }
  }
}

}  // namespace

std::vector<double> rotary_frequencies(std::int64_t head_dim, double theta,
                                       const std::optional<Llama3RopeScaling>& scaling) {
  ensure(head_dim > 0 && head_dim % 2 == 0, "a rotary head has an even dimension");
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    double f = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (scaling) {
      // Turns in the original context: many turns keep their frequency, few are stretched by
      // `factor`.
      const double turns = scaling->original_max_position_embeddings * f / (2 * std::numbers::pi);
      const double s = (turns - scaling->low_freq_factor) /
                       (scaling->high_freq_factor - scaling->low_freq_factor);
      const double kept = std::clamp(s, 0.0, 1.0);
      f = (1.0 - kept) * f / scaling->factor + kept * f;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

template <class T>
void rotary(const Rotary<T>& args, const KernelContext& context) {
  ensure(args.head_dim > 0 && args.head_dim % 2 == 0 && args.head_dim <= kMaxRotaryHeadDim,
         "a rotary head has an even dimension of at most 512");
  ensure(args.stride >= args.heads * args.head_dim, "rows of heads do not overlap");
  ensure(args.positions.sequence > 0 && args.positions.offset >= 0, "positions count from zero");
  Turns turns(args.frequencies, args.head_dim / 2, args.direction);
  Turn<T> turn;
  std::int64_t done = 0;
  // By position, so that the sines of a position serve all sequences and heads.
  for (std::int64_t s = 0; s < std::min(args.positions.sequence, args.rows); ++s) {
    turns.at(s + args.positions.offset, turn);
    for (std::int64_t r = s; r < args.rows; r += args.positions.sequence) {
      turn_row(args.x + r * args.stride, turn, args.heads, args.head_dim / 2);
      done += args.heads * args.head_dim;
      if (done >= kBlockElements) {
        context.poll();
        done = 0;
      }
    }
  }
}

template void rotary(const Rotary<float>&, const KernelContext&);
template void rotary(const Rotary<double>&, const KernelContext&);

}  // namespace parplan::hw
