#include "sim/max_plus.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <limits>
#include <optional>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

/// Compiled for plain processors and for AVX2; the compiler vectorises the two inner loops.
[[gnu::always_inline]] inline void apply_runs(const MaxPlusRun* run, const MaxPlusRun* end,
                                              std::int64_t* state, const std::int64_t* durations) {
  for (; run != end; ++run) {
    std::int64_t* const out = state + run->out;
    const std::int64_t* const a = state + run->a;
    const std::int64_t* const b = state + run->b;
    const std::int64_t* const duration = durations + run->duration;
    const std::size_t count = run->count;
    if (run->c == MaxPlusRun::kNoOperand) {
#pragma GCC ivdep
      for (std::size_t k = 0; k < count; ++k) out[k] = std::max(a[k], b[k]) + duration[k];
    } else {
      const std::int64_t* const c = state + run->c;
#pragma GCC ivdep
      for (std::size_t k = 0; k < count; ++k) {
        out[k] = std::max(std::max(a[k], b[k]), c[k]) + duration[k];
      }
    }
  }
}

using ApplyRuns = void (*)(const MaxPlusRun*, const MaxPlusRun*, std::int64_t*,
                           const std::int64_t*);

void apply_plain(const MaxPlusRun* run, const MaxPlusRun* end, std::int64_t* state,
                 const std::int64_t* durations) {
  apply_runs(run, end, state, durations);
}

#if defined(__x86_64__) && defined(__GNUC__)
[[gnu::target("avx2")]] void apply_avx2(const MaxPlusRun* run, const MaxPlusRun* end,
                                        std::int64_t* state, const std::int64_t* durations) {
  apply_runs(run, end, state, durations);
}

/// max(a, b[, c]) + duration of the lanes in `mask`. (The forms of GCC 12 without a mask warn.)
template <bool kThree>
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512i task_lanes(
    __mmask8 mask, const std::int64_t* a, const std::int64_t* b, const std::int64_t* c,
    const std::int64_t* duration) {
  __m512i most = _mm512_maskz_max_epi64(mask, _mm512_maskz_loadu_epi64(mask, a),
                                        _mm512_maskz_loadu_epi64(mask, b));
  if constexpr (kThree) {
    most = _mm512_maskz_max_epi64(mask, most, _mm512_maskz_loadu_epi64(mask, c));
  }
  return _mm512_add_epi64(most, _mm512_maskz_loadu_epi64(mask, duration));
}

template <bool kThree>
[[gnu::target("avx512f"), gnu::always_inline]] inline void apply_run(
    const MaxPlusRun& run, std::int64_t* state, const std::int64_t* durations) {
  const std::int64_t* const a = state + run.a;
  const std::int64_t* const b = state + run.b;
  const std::int64_t* const c = kThree ? state + run.c : nullptr;
  const std::int64_t* const duration = durations + run.duration;
  std::int64_t* const out = state + run.out;
  std::uint32_t k = 0;
  for (; k + kVectorLanes <= run.count; k += kVectorLanes) {
    _mm512_storeu_si512(
        out + k, task_lanes<kThree>(0xFF, a + k, b + k, kThree ? c + k : nullptr, duration + k));
  }
  if (k == run.count) return;
  const auto rest = static_cast<__mmask8>((1U << (run.count - k)) - 1U);
  _mm512_mask_storeu_epi64(
      out + k, rest,
      task_lanes<kThree>(rest, a + k, b + k, kThree ? c + k : nullptr, duration + k));
}

/// By hand: runs are short, so that what is left after whole vectors counts. It goes under a mask.
[[gnu::target("avx512f")]] void apply_avx512(const MaxPlusRun* run, const MaxPlusRun* end,
                                             std::int64_t* state, const std::int64_t* durations) {
  for (; run != end; ++run) {
    if (run->c == MaxPlusRun::kNoOperand) {
      apply_run<false>(*run, state, durations);
    } else {
      apply_run<true>(*run, state, durations);
    }
  }
}
#endif

/// 64-bit maxima are one instruction in AVX-512, two in AVX2 and a branch or more before.
ApplyRuns best_apply() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return apply_avx512;
  if (__builtin_cpu_supports("avx2")) return apply_avx2;
#endif
  return apply_plain;
}

const ApplyRuns kApply = best_apply();

constexpr std::size_t kSamples = 16;
constexpr std::size_t kHistoryBits = 8;  // small: it shares the cache with the state
constexpr std::size_t kHistory = std::size_t{1} << kHistoryBits;  // a longer period is not found

}  // namespace

MaxPlusBody::MaxPlusBody(std::vector<MaxPlusRun> runs, std::size_t state_size)
    : runs_(std::move(runs)), state_size_(state_size) {
  const auto apart = [](std::uint32_t x, std::uint32_t y, std::uint32_t count) {
    return x + count <= y || y + count <= x;
  };
  std::vector<bool> is_written(state_size, false), is_live(state_size, false);
  for (const MaxPlusRun& run : runs_) {
    const bool three = run.c != MaxPlusRun::kNoOperand;
    const std::uint32_t last = std::max({run.out, run.a, run.b, three ? run.c : 0});
    ensure(std::size_t{last} + run.count <= state_size, "a max-plus run stays in its state");
    ensure((run.out == run.a || apart(run.out, run.a, run.count)) &&
               apart(run.out, run.b, run.count) && (!three || apart(run.out, run.c, run.count)),
           "a max-plus run does not write what it reads");
    const auto read = [&](std::uint32_t slot) {
      if (!is_written[slot]) is_live[slot] = true;
    };
    for (std::uint32_t k = 0; k < run.count; ++k) {
      read(run.a + k);
      read(run.b + k);
      if (three) read(run.c + k);
    }
    std::fill_n(is_written.begin() + run.out, run.count, true);
  }
  for (std::uint32_t slot = 0; slot < state_size; ++slot) {
    if (!is_live[slot]) continue;
    if (!is_written[slot]) {
      constants_.push_back(slot);
      continue;
    }
    carried_.push_back(slot);
  }
  const std::size_t samples = std::min(kSamples, carried_.size());
  std::uint64_t weight = 0x9E3779B97F4A7C15U, sum = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    samples_.push_back({carried_[i * carried_.size() / samples], weight});
    sum += weight;
    weight = weight * 0xD1342543DE82EF95U + 2;  // stays odd
  }
  if (samples > 0) samples_.back().weight -= sum;
}

void MaxPlusBody::apply(std::span<std::int64_t> state,
                        std::span<const std::int64_t> durations) const {
  kApply(runs_.data(), runs_.data() + runs_.size(), state.data(), durations.data());
}

/// One call of repeat(). What counts is what is carried, that is read before it is written, from
/// one repetition to the next. A hash of it that a growth of all alike leaves unchanged tells when
/// it may be as it was at a landmark: these are states that are kept, ever more rarely. The same
/// hash of what it grows by in each repetition tells when it may grow as it did one period before.
/// A jump moves the carried values and stops short of the end, so that the last repetition brings
/// the others up to date.
class MaxPlusBody::Repetition {
 public:
  Repetition(const MaxPlusBody& body, std::int64_t times, std::span<std::int64_t> state,
             std::span<const std::int64_t> durations, MaxPlusScratch& scratch)
      : body_(body), left_(times), state_(state), durations_(durations), scratch_(scratch) {
    constants_are_zero_ = std::all_of(body.constants_.begin(), body.constants_.end(),
                                      [&](std::uint32_t slot) { return state[slot] == 0; });
    scratch.repetition_of.resize(kHistory);
    scratch.landmark_of.resize(kHistory);
    scratch.growths.resize(kHistory);
    begin();
  }

  void run() {
    while (left_ > 0) {
      body_.apply(state_, durations_);
      ++scratch_.applications;
      --left_;
      ++done_;
      const std::uint64_t hash = hash_of_state();
      if (left_ > 1 && (jump_from_landmark(hash) || (ends_period(hash - last_hash_) && jump()))) {
        begin();
      } else {
        last_hash_ = hash;
      }
    }
  }

 private:
  static constexpr std::int64_t kLeastPeriods = 8;
  static constexpr std::int64_t kDense = 4;  // landmarks from n to 2 n, from n = 4 on

  /// What was seen before a jump holds no longer.
  void begin() {
    ++scratch_.epoch;
    done_ = period_ = period_end_ = 0;
    landmarks_ = 0;
    next_landmark_ = landmark_distance_ = 1;
    last_hash_ = hash_of_state();
  }

  /// Linear, so that differences of hashes are hashes of differences.
  std::uint64_t hash_of_state() const {
    std::uint64_t sum = 0;
    for (const auto& [slot, weight] : body_.samples_) {
      sum += weight * static_cast<std::uint64_t>(state_[slot]);
    }
    return sum;
  }

  /// Tables of what a hash stands for; the newest of two in one place stays.
  static std::size_t place_of(std::uint64_t hash) {
    return (hash * 0x9E3779B97F4A7C15U) >> (64 - kHistoryBits);
  }
  std::optional<std::int64_t> seen_at(const std::vector<MaxPlusScratch::Seen>& table,
                                      std::uint64_t hash) const {
    const auto& seen = table[place_of(hash)];
    if (seen.epoch != scratch_.epoch || seen.hash != hash) return std::nullopt;
    return seen.what;
  }
  void see(std::vector<MaxPlusScratch::Seen>& table, std::uint64_t hash, std::int64_t what) const {
    table[place_of(hash)] = {hash, scratch_.epoch, what};
  }

  /// Compares with the landmarks. If all has grown alike since one of them, it will in every such
  /// period: skips these, and goes on from the landmark that brings nearest to the end. Makes this
  /// state a landmark if its turn has come.
  bool jump_from_landmark(std::uint64_t hash) {
    if (!constants_are_zero_) return false;
    if (const auto i = seen_at(scratch_.landmark_of, hash)) {
      if (const auto growth = uniform_growth(landmark(static_cast<std::size_t>(*i)))) {
        finish_from_landmark(static_cast<std::size_t>(*i), *growth);
        return true;
      }
    }
    if (done_ == next_landmark_) store_landmark(hash);
    return false;
  }

  const std::int64_t* landmark(std::size_t i) const {
    return scratch_.landmarks.data() + i * state_.size();
  }

  void store_landmark(std::uint64_t hash) {
    const std::size_t size = state_.size();
    see(scratch_.landmark_of, hash, static_cast<std::int64_t>(landmarks_));
    scratch_.landmark_times.resize(landmarks_ + 1);
    scratch_.landmark_times[landmarks_] = done_;
    if (scratch_.landmarks.size() < (landmarks_ + 1) * size) {
      scratch_.landmarks.resize((landmarks_ + kDense) * size);
    }
    std::copy(state_.begin(), state_.end(),
              scratch_.landmarks.begin() + static_cast<std::ptrdiff_t>(landmarks_ * size));
    ++landmarks_;
    if (next_landmark_ == 2 * kDense * landmark_distance_) landmark_distance_ *= 2;
    next_landmark_ += landmark_distance_;
  }

  /// By how much all carried values have grown since `from`, if all have alike. Begins where the
  /// last comparison failed: what lags behind does not move far in one repetition.
  std::optional<std::int64_t> uniform_growth(const std::int64_t* from) {
    const auto& slots = body_.carried_;
    const std::int64_t growth = state_[slots[0]] - from[slots[0]];
    const auto differs = [&](std::size_t i) {
      suspect_ = i;
      return state_[slots[i]] - from[slots[i]] != growth;
    };
    const std::size_t begin = suspect_;
    for (std::size_t i = begin; i < slots.size(); ++i) {
      if (differs(i)) return std::nullopt;
    }
    for (std::size_t i = 0; i < begin; ++i) {
      if (differs(i)) return std::nullopt;
    }
    return growth;
  }

  void finish_from_landmark(std::size_t i, std::int64_t growth) {
    const auto& times = scratch_.landmark_times;
    const std::int64_t period = done_ - times[i];
    const std::int64_t periods = (left_ - 1) / period;
    const std::int64_t beyond = (left_ - 1) % period;
    std::size_t nearest = i;
    while (nearest + 1 < landmarks_ && times[nearest + 1] - times[i] <= beyond) ++nearest;
    const std::int64_t* const from = landmark(nearest);
    for (const std::uint32_t slot : body_.carried_) {
      state_[slot] = from[slot] + (periods + 1) * growth;
    }
    left_ -= periods * period + times[nearest] - times[i];
    ++scratch_.jumps;
  }

  /// Takes note of the growth in the last repetition: whether the last period_ repetitions, which
  /// began at scratch_.slopes, grew one by one as those before them.
  bool ends_period(std::uint64_t growth) {
    const std::int64_t now = done_;
    auto& history = scratch_.growths;
    const auto at = [](std::int64_t repetition) {
      return static_cast<std::size_t>(repetition) % kHistory;
    };
    const bool fails = period_ == 0 || history[at(now - period_)] != growth;
    if (fails) {
      period_ = now - seen_at(scratch_.repetition_of, growth).value_or(now);
      if (period_ >= static_cast<std::int64_t>(kHistory)) period_ = 0;
    }
    const bool again = now > period_end_ && scratch_.applications >= next_try_;
    if (period_ > 0 && (fails || again)) {
      period_end_ = now + period_;
      scratch_.slopes.assign(state_.begin(), state_.end());
    }
    history[at(now)] = growth;
    see(scratch_.repetition_of, growth, now);
    return period_ > 0 && now == period_end_;
  }

  /// Skips the periods in which all grows as in the last one; whether there were any.
  bool jump() {
    const std::int64_t most = (left_ - 1) / period_;
    if (most < kLeastPeriods || scratch_.applications < next_try_) return false;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      scratch_.slopes[i] = state_[i] - scratch_.slopes[i];
    }
    const std::int64_t periods = std::min(most, periods_with_these_slopes(period_));
    if (periods < kLeastPeriods) {
      // An attempt costs some periods; keep the failed ones a small part of the whole.
      wasted_ += 16 * period_;
      next_try_ = scratch_.applications + wasted_;
      return false;
    }
    for (const std::uint32_t slot : body_.carried_) state_[slot] += periods * scratch_.slopes[slot];
    left_ -= periods * period_;
    ++scratch_.jumps;
    return true;
  }

  /// Applies the body `period` times to the functions n -> state + n * slope, n = 0, 1, ... How
  /// many periods go by with exactly these slopes: 0 if the state does not come back with them at
  /// all, or for few periods only.
  std::int64_t periods_with_these_slopes(std::int64_t period) {
    auto& values = scratch_.values;
    auto& slopes = scratch_.period_slopes;
    values.assign(state_.begin(), state_.end());
    slopes.assign(state_.size(), 0);
    for (const std::uint32_t slot : body_.carried_) slopes[slot] = scratch_.slopes[slot];
    std::int64_t valid = std::numeric_limits<std::int64_t>::max();  // largest n that holds
    for (std::int64_t i = 0; i < period; ++i) {
      ++scratch_.applications;
      for (const MaxPlusRun& run : body_.runs_) {
        for (std::uint32_t k = 0; k < run.count; ++k) {
          Line line{values[run.a + k], slopes[run.a + k]};
          line.join({values[run.b + k], slopes[run.b + k]}, valid);
          if (run.c != MaxPlusRun::kNoOperand) {
            line.join({values[run.c + k], slopes[run.c + k]}, valid);
          }
          values[run.out + k] = line.value + durations_[run.duration + k];
          slopes[run.out + k] = line.slope;
        }
        if (valid < kLeastPeriods - 1) return 0;
      }
    }
    for (const std::uint32_t slot : body_.carried_) {
      if (slopes[slot] != scratch_.slopes[slot]) return 0;
      if (values[slot] != state_[slot] + slopes[slot]) return 0;
    }
    // If it holds up to n, the states 0 .. n + 1 periods ahead are known.
    return valid == std::numeric_limits<std::int64_t>::max() ? valid : valid + 1;
  }

  struct Line {
    std::int64_t value, slope;

    /// The maximum of two lines is the upper one at 0 (the steeper one of two equal) for as long as
    /// the other does not overtake it.
    void join(Line other, std::int64_t& valid) {
      if (other.value > value || (other.value == value && other.slope > slope)) {
        std::swap(*this, other);
      }
      if (other.slope > slope) {
        valid = std::min(valid, (value - other.value) / (other.slope - slope));
      }
    }
  };

  const MaxPlusBody& body_;
  std::int64_t left_;
  std::span<std::int64_t> state_;
  std::span<const std::int64_t> durations_;
  MaxPlusScratch& scratch_;
  bool constants_are_zero_ = false;
  std::int64_t done_ = 0;  // since the last jump
  std::uint64_t last_hash_ = 0;
  std::size_t landmarks_ = 0;
  std::size_t suspect_ = 0;  // among the carried slots
  std::int64_t next_landmark_ = 1, landmark_distance_ = 1;
  std::int64_t period_ = 0, period_end_ = 0;
  std::int64_t wasted_ = 0;
  std::int64_t next_try_ = 0;
};

void MaxPlusBody::repeat(std::int64_t times, std::span<std::int64_t> state,
                         std::span<const std::int64_t> durations, MaxPlusScratch& scratch) const {
  ensure(state.size() == state_size_, "a max-plus state has the size of its body");
  if (carried_.empty()) {  // nothing depends on the repetition before
    if (times > 0) apply(state, durations);
    return;
  }
  Repetition(*this, times, state, durations, scratch).run();
}

}  // namespace parplan::sim
