#include "sim/max_plus.hpp"

#include <algorithm>
#include <limits>

#include "sim/core/error.hpp"

namespace parplan::sim {
namespace {

/// Compiled once for each instruction set below; the compiler vectorises the two inner loops.
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
[[gnu::target("avx512f,avx512vl")]] void apply_avx512(const MaxPlusRun* run, const MaxPlusRun* end,
                                                      std::int64_t* state,
                                                      const std::int64_t* durations) {
  apply_runs(run, end, state, durations);
}
#endif

/// 64-bit maxima are one instruction in AVX-512, two in AVX2 and a branch or more before.
ApplyRuns best_apply() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return apply_avx512;
  if (__builtin_cpu_supports("avx2")) return apply_avx2;
#endif
  return apply_plain;
}

const ApplyRuns kApply = best_apply();

constexpr std::size_t kSamples = 16;
constexpr std::size_t kSeenSize = 512;  // power of two
constexpr std::size_t kHistory = 512;   // rows; a longer period is not found, only slower

}  // namespace

MaxPlusBody::MaxPlusBody(std::vector<MaxPlusRun> runs, std::size_t state_size)
    : runs_(std::move(runs)), state_size_(state_size) {
  const auto apart = [](std::uint32_t x, std::uint32_t y, std::uint32_t count) {
    return x + count <= y || y + count <= x;
  };
  std::vector<bool> is_written(state_size, false), is_read(state_size, false);
  for (const MaxPlusRun& run : runs_) {
    const bool three = run.c != MaxPlusRun::kNoOperand;
    const std::uint32_t last = std::max({run.out, run.a, run.b, three ? run.c : 0});
    ensure(std::size_t{last} + run.count <= state_size, "a max-plus run stays in its state");
    ensure((run.out == run.a || apart(run.out, run.a, run.count)) &&
               apart(run.out, run.b, run.count) && (!three || apart(run.out, run.c, run.count)),
           "a max-plus run does not write what it reads");
    for (std::uint32_t k = 0; k < run.count; ++k) {
      is_written[run.out + k] = true;
      is_read[run.a + k] = is_read[run.b + k] = true;
      if (three) is_read[run.c + k] = true;
    }
  }
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < state_size; ++slot) {
    if (is_read[slot] && !is_written[slot]) constants_.push_back(slot);
    if (!is_written[slot]) continue;
    slots.push_back(slot);
    if (written_.empty() || written_.back().end != slot) written_.push_back({slot, slot});
    written_.back().end = slot + 1;
  }
  const std::size_t samples = std::min(kSamples, slots.size());
  std::uint64_t weight = 0x9E3779B97F4A7C15U;
  for (std::size_t i = 0; i < samples; ++i) {
    samples_.push_back({slots[i * slots.size() / samples], weight});
    weight = weight * 0xD1342543DE82EF95U + 2;  // stays odd
  }
}

void MaxPlusBody::apply(std::span<std::int64_t> state,
                        std::span<const std::int64_t> durations) const {
  kApply(runs_.data(), runs_.data() + runs_.size(), state.data(), durations.data());
}

/// One call of repeat(). The states since the last jump are the rows of a table; a hash over the
/// growth in the last repetition finds the row with which the newest may form a period.
class MaxPlusBody::Repetition {
 public:
  Repetition(const MaxPlusBody& body, std::int64_t times, std::span<std::int64_t> state,
             std::span<const std::int64_t> durations, MaxPlusScratch& scratch)
      : body_(body), left_(times), state_(state), durations_(durations), scratch_(scratch) {
    constants_are_zero_ = std::all_of(body.constants_.begin(), body.constants_.end(),
                                      [&](std::uint32_t slot) { return state[slot] == 0; });
    scratch.seen.resize(kSeenSize);
    if (scratch.rows.size() < kHistory * state.size()) {
      scratch.rows.resize(kHistory * state.size());
    }
  }

  void run() {
    while (left_ > 0) {
      ++scratch_.epoch;
      std::size_t rows = 0;
      store(rows++);
      std::uint64_t last_sum = weighted_sum();
      while (left_ > 0 && rows < kHistory) {
        body_.apply(state_, durations_);
        ++scratch_.applications;
        --left_;
        store(rows++);
        const std::uint64_t sum = weighted_sum();
        const auto earlier = exchange_seen(sum - last_sum, rows - 1);
        last_sum = sum;
        if (earlier == kNone || left_ == 0) continue;
        if (constants_are_zero_ && is_uniform(earlier, rows - 1)) {
          return finish_uniform(earlier, rows - 1);
        }
        if (jump_linear(earlier, rows - 1)) break;  // what was seen holds no longer
      }
    }
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::int64_t* row(std::size_t index) { return scratch_.rows.data() + index * state_.size(); }
  void store(std::size_t index) { std::copy(state_.begin(), state_.end(), row(index)); }

  /// Linear in the state, so that differences of sums are sums of differences.
  std::uint64_t weighted_sum() const {
    std::uint64_t sum = 0;
    for (const auto& [slot, weight] : body_.samples_) {
      sum += weight * static_cast<std::uint64_t>(state_[slot]);
    }
    return sum;
  }

  std::size_t exchange_seen(std::uint64_t fingerprint, std::size_t row_index) {
    auto& seen = scratch_.seen[(fingerprint * 0x9E3779B97F4A7C15U) >> 55];
    const bool hit = seen.epoch == scratch_.epoch && seen.fingerprint == fingerprint;
    const std::size_t earlier = hit ? seen.row : kNone;
    seen = {fingerprint, scratch_.epoch, row_index};
    return earlier;
  }

  bool is_uniform(std::size_t earlier, std::size_t later) {
    const std::int64_t* const x = row(earlier);
    const std::int64_t* const y = row(later);
    const std::uint32_t first = body_.written_.front().begin;
    const std::int64_t growth = y[first] - x[first];
    for (const Range range : body_.written_) {
      for (std::uint32_t i = range.begin; i < range.end; ++i) {
        if (y[i] - x[i] != growth) return false;
      }
    }
    return true;
  }

  /// From row `earlier` on, everything repeats every `later - earlier` rows, plus the growth.
  void finish_uniform(std::size_t earlier, std::size_t later) {
    const auto period = static_cast<std::int64_t>(later - earlier);
    const std::uint32_t first = body_.written_.front().begin;
    const std::int64_t growth = row(later)[first] - row(earlier)[first];
    const std::int64_t from_earlier = period + left_;
    const std::int64_t* const phase =
        row(earlier + static_cast<std::size_t>(from_earlier % period));
    const std::int64_t passed = from_earlier / period * growth;
    for (const Range range : body_.written_) {
      for (std::uint32_t i = range.begin; i < range.end; ++i) state_[i] = phase[i] + passed;
    }
    left_ = 0;
    ++scratch_.jumps;
  }

  /// Tries to skip whole periods with the slopes between the two rows; whether it did.
  bool jump_linear(std::size_t earlier, std::size_t later) {
    const auto period = static_cast<std::int64_t>(later - earlier);
    if (left_ < kLeastPeriods * period || scratch_.applications < next_try_) return false;
    scratch_.slopes.assign(state_.size(), 0);
    for (const Range range : body_.written_) {
      for (std::uint32_t i = range.begin; i < range.end; ++i) {
        scratch_.slopes[i] = row(later)[i] - row(earlier)[i];
      }
    }
    const std::int64_t valid = periods_with_these_slopes(period);
    const std::int64_t periods = std::min(valid, left_ / period);
    if (periods < kLeastPeriods) {
      // An attempt costs some four periods; keep the failed ones a small part of the whole.
      wasted_ += 16 * period;
      next_try_ = scratch_.applications + wasted_;
    }
    if (periods == 0) return false;
    for (const Range range : body_.written_) {
      for (std::uint32_t i = range.begin; i < range.end; ++i) {
        state_[i] += periods * scratch_.slopes[i];
      }
    }
    left_ -= periods * period;
    ++scratch_.jumps;
    return true;
  }

  /// Applies the body `period` times to the functions n -> state + n * slope, n = 0, 1, ... How
  /// many periods go by with exactly these slopes: 0 if the state does not come back with them at
  /// all.
  std::int64_t periods_with_these_slopes(std::int64_t period) {
    auto& values = scratch_.values;
    auto& slopes = scratch_.period_slopes;
    values.assign(state_.begin(), state_.end());
    slopes = scratch_.slopes;
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
      }
    }
    for (const Range range : body_.written_) {
      for (std::uint32_t i = range.begin; i < range.end; ++i) {
        if (slopes[i] != scratch_.slopes[i] || values[i] != state_[i] + slopes[i]) return 0;
      }
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

  static constexpr std::int64_t kLeastPeriods = 8;

  const MaxPlusBody& body_;
  std::int64_t left_;
  std::span<std::int64_t> state_;
  std::span<const std::int64_t> durations_;
  MaxPlusScratch& scratch_;
  bool constants_are_zero_ = false;
  std::int64_t wasted_ = 0;
  std::int64_t next_try_ = 0;
};

void MaxPlusBody::repeat(std::int64_t times, std::span<std::int64_t> state,
                         std::span<const std::int64_t> durations, MaxPlusScratch& scratch) const {
  ensure(state.size() == state_size_, "a max-plus state has the size of its body");
  if (written_.empty()) return;
  Repetition(*this, times, state, durations, scratch).run();
}

}  // namespace parplan::sim
