#pragma once

#include <cstdint>
#include <span>

#include "sim/core/workload.hpp"

namespace parplan::hw {

/// Which sample of the data set goes where in the global batches, as PyTorch's DistributedSampler
/// does it with set_epoch: each epoch is one order of all samples, cut into global batches; the
/// last one is padded from the start of the order, or dropped. A pure function of (seed, epoch,
/// place): every rank gets the same answers without a word to the others, and the same number of
/// steps.
class Sampler {
 public:
  /// InputError when there is no sample, or when dropping leaves no step.
  Sampler(const Workload& workload, std::int64_t samples);

  std::int64_t samples() const { return samples_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Places of an epoch that repeat a sample of the same epoch (padding).
  std::int64_t padded_per_epoch() const;
  /// Samples of an epoch that no step uses.
  std::int64_t dropped_per_epoch() const;

  /// Samples at places [first, first + out.size()) of the global batch of `step`, counted from the
  /// first step of the first epoch.
  void indexes(std::int64_t step, std::int64_t first, std::span<std::int64_t> out) const;

 private:
  std::int64_t samples_;
  std::int64_t batch_;
  std::int64_t steps_per_epoch_;
  bool shuffle_;
  std::uint64_t seed_;
};

/// A keyed permutation of [0, size): place -> item, computed without a table, so that data sets of
/// any size cost nothing at the start of an epoch. A Feistel network (Luby, Rackoff 1988) of eight
/// rounds over the next even number of bits, walked along its cycle until it lands inside
/// (Black, Rogaway 2002): at most four evaluations on average.
class KeyedPermutation {
 public:
  /// size >= 1.
  KeyedPermutation(std::uint64_t key, std::int64_t size);
  std::int64_t operator()(std::int64_t place) const;

 private:
  std::uint64_t key_;
  std::uint64_t size_;
  int half_bits_;
};

}  // namespace parplan::hw
