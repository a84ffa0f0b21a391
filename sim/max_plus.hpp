#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace parplan::sim {

/// `count` like tasks at once: for k < count
///     state[out + k] = max(state[a + k], state[b + k], state[c + k]) + durations[duration + k].
/// The range of `out` is either exactly that of `a` or apart from those of a, b and c.
struct MaxPlusRun {
  static constexpr std::uint32_t kNoOperand = UINT32_MAX;  ///< `c` of a run with two operands

  std::uint32_t out = 0, a = 0, b = 0, c = kNoOperand;
  std::uint32_t duration = 0;
  std::uint32_t count = 0;
};

/// 64-bit numbers in the longest vector that runs are done with. Ranges that begin at multiples of
/// it are fastest.
inline constexpr std::uint32_t kVectorLanes = 8;

/// Memory that begins so.
template <class T>
struct VectorAligned {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{kVectorLanes * sizeof(std::int64_t)};

  VectorAligned() = default;
  template <class U>
  VectorAligned(const VectorAligned<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* at, std::size_t) { ::operator delete(at, kAlignment); }
  bool operator==(const VectorAligned&) const = default;
};

/// States and durations.
using LaneVector = std::vector<std::int64_t, VectorAligned<std::int64_t>>;

/// Room of MaxPlusBody::repeat() and what it did; one per thread, reusable with any body.
struct MaxPlusScratch {
  std::int64_t applications = 0;  ///< bodies executed, those with slopes included; counts up
  std::int64_t jumps = 0;         ///< times that repetitions were skipped; counts up

  struct Seen {
    std::uint64_t hash = 0;
    std::uint64_t epoch = 0;
    std::int64_t what = 0;
  };
  std::vector<Seen> repetition_of, landmark_of;
  std::vector<std::uint64_t> growths;
  LaneVector landmarks;
  std::vector<std::int64_t> landmark_times;
  std::vector<std::int64_t> slopes, values, period_slopes;
  std::uint64_t epoch = 0;
};

/// A fixed sequence of runs on a state of finish times: a (max, +)-linear map x -> A(x) without the
/// matrix. States and durations are >= 0.
///
/// repeat() applies the map many times in far fewer steps. If the state c repetitions apart grew by
/// one number everywhere, it always will (A(x + const) = A(x) + const): the rest is a
/// multiplication. Before that, the state often grows linearly with different slopes in different
/// places (a fast stage runs ahead of a slow one) until something catches up. Then the map is
/// applied once to linear functions of the number of periods instead of to numbers: each maximum
/// keeps its winner for as many periods as the others' slopes allow, the least of these is how far
/// one may jump, exactly. So the cost depends on how many such regimes there are, not on the number
/// of repetitions. (Periodicity of max-plus powers: Baccelli, Cohen, Olsder, Quadrat,
/// Synchronization and Linearity, theorem 3.109.)
class MaxPlusBody {
 public:
  /// InternalError for a run that breaks the rule above or leaves `state_size`.
  MaxPlusBody(std::vector<MaxPlusRun> runs, std::size_t state_size);

  void apply(std::span<std::int64_t> state, std::span<const std::int64_t> durations) const;
  /// apply() `times` times; same result to the bit.
  void repeat(std::int64_t times, std::span<std::int64_t> state,
              std::span<const std::int64_t> durations, MaxPlusScratch& scratch) const;

  [[nodiscard]] std::span<const MaxPlusRun> runs() const { return runs_; }

 private:
  class Repetition;

  std::vector<MaxPlusRun> runs_;
  std::size_t state_size_;
  std::vector<std::uint32_t> carried_;    // read first and then written: go to the next repetition
  std::vector<std::uint32_t> constants_;  // read, but never written
  struct Sample {
    std::uint32_t slot;  // one of the carried
    std::uint64_t weight;
  };
  std::vector<Sample> samples_;  // make the hash; the weights sum to 0
};

}  // namespace parplan::sim
