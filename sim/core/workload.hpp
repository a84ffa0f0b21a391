#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/core/dtype.hpp"

namespace parplan {

enum class OptimizerKind : std::uint8_t { kAdam, kAdamW };

/// Adam and AdamW as PyTorch defines them (torch.optim.Adam / AdamW defaults).
struct Optimizer {
  OptimizerKind kind = OptimizerKind::kAdam;
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;

  bool operator==(const Optimizer&) const = default;
};

enum class DataKind : std::uint8_t {
  kSynthetic,  ///< keyed random samples, the same in every layout
  kTokenFile,  ///< memory-mapped token ids; a sample is `sequence` tokens, targets are shifted by
               ///< one
};
enum class TokenWidth : std::uint8_t { kUint16, kUint32 };
/// What a sampler does with samples that do not fill the last global batch of an epoch.
enum class Remainder : std::uint8_t { kPad, kDrop };

struct DataSource {
  DataKind kind = DataKind::kSynthetic;
  std::string path;                        ///< token file
  TokenWidth width = TokenWidth::kUint16;  ///< token file
  std::optional<std::int64_t> tokens;      ///< token file: ids it held when the plan was made
  std::int64_t samples = 10000;            ///< synthetic: size of the data set
  bool shuffle = true;                     ///< by epoch, as DistributedSampler::set_epoch does
  Remainder remainder = Remainder::kPad;

  bool operator==(const DataSource&) const = default;
};

/// What one training step does, whatever the layout.
struct Workload {
  std::int64_t global_batch = 1;     ///< samples per step over all ranks
  std::int64_t sequence = 1;         ///< positions per sample
  std::int64_t source_sequence = 1;  ///< positions per sample on an encoder's side
  DType precision = DType::kFloat32;
  Optimizer optimizer;
  DataSource data;
  std::uint64_t seed = 1;  ///< keys initialisation, dropout, synthetic data and shuffling

  bool operator==(const Workload&) const = default;
};

/// More positions per step than this, and sizes in bytes would no longer fit 63 bits.
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 40;

/// Throws InputError when numbers are not finite or a step would have more than kMostPositions
/// positions.
void check_workload(const Workload& workload);

}  // namespace parplan
