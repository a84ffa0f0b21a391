#include "hw/executor/sampler.hpp"

#include <bit>
#include <string>

#include "hw/random.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {

KeyedPermutation::KeyedPermutation(std::uint64_t key, std::int64_t size)
    : key_(key), size_(static_cast<std::uint64_t>(size)) {
  ensure(size >= 1, "a permutation has at least one item");
  half_bits_ = (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2;
}

std::int64_t KeyedPermutation::operator()(std::int64_t place) const {
  constexpr std::uint64_t kRounds = 8;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = keyed_u64(key_ + round, right) & mask;
      const std::uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

Sampler::Sampler(const Workload& workload, std::int64_t samples)
    : samples_(samples),
      batch_(workload.global_batch),
      shuffle_(workload.data.shuffle),
      seed_(workload.seed) {
  ensure(batch_ >= 1, "a global batch has at least one sample");
  if (samples < 1) throw InputError("the data set has no sample");
  const bool drop = workload.data.remainder == Remainder::kDrop;
  steps_per_epoch_ = drop ? samples / batch_ : (samples + batch_ - 1) / batch_;
  if (steps_per_epoch_ == 0) {
    throw InputError("the data set has " + std::to_string(samples) +
                     " samples, fewer than the global batch of " + std::to_string(batch_) +
                     ", and an incomplete batch is dropped: use a global batch of at most " +
                     std::to_string(samples) + ", or pad");
  }
}

std::int64_t Sampler::padded_per_epoch() const {
  const std::int64_t places = steps_per_epoch_ * batch_;
  return places > samples_ ? places - samples_ : 0;
}

std::int64_t Sampler::dropped_per_epoch() const {
  const std::int64_t places = steps_per_epoch_ * batch_;
  return places < samples_ ? samples_ - places : 0;
}

void Sampler::indexes(std::int64_t step, std::int64_t first, std::span<std::int64_t> out) const {
  const std::int64_t epoch = step / steps_per_epoch_;
  const std::int64_t start = (step % steps_per_epoch_) * batch_ + first;
  const KeyedPermutation order(
      keyed_u64(tensor_key(seed_, "epoch"), static_cast<std::uint64_t>(epoch)), samples_);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t place = (start + static_cast<std::int64_t>(i)) % samples_;
    out[i] = shuffle_ ? order(place) : place;
  }
}

}  // namespace parplan::hw
