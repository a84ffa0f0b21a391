#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/core/dtype.hpp"

namespace parplan {

enum class OptimizerKind : std::uint8_t { kAdam, kAdamW };

/// How the learning rate goes on after its warm-up.
enum class Decay : std::uint8_t { kConstant, kLinear, kCosine };

/// The learning rate over the steps, counted from 1; see learning_rate_at.
struct LearningRateSchedule {
  Decay decay = Decay::kConstant;
  std::int64_t warmup_steps = 0;   ///< the last of them has the full rate
  std::int64_t decay_steps = 0;    ///< step that has the least rate first; 0 when constant
  double min_learning_rate = 0.0;  ///< the least one; 0 when constant

  bool operator==(const LearningRateSchedule&) const = default;
};

/// Adam and AdamW as PyTorch defines them (torch.optim.Adam / AdamW defaults).
struct Optimizer {
  OptimizerKind kind = OptimizerKind::kAdam;
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  LearningRateSchedule schedule;
  /// The gradient of a step is scaled down to this Euclidean norm over all parameters where it has
  /// a larger one; see clip_factor.
  std::optional<double> max_gradient_norm;

  bool operator==(const Optimizer&) const = default;
};

/// The learning rate of `step` >= 1: R s / W up to step W = warmup_steps, R being
/// optimizer.learning_rate; then R, or from R at step W down to the least rate at step decay_steps
/// along a line or half a cosine (Loshchilov and Hutter, "SGDR", 2017, equation 5 without
/// restarts), and the least rate after it.
double learning_rate_at(const Optimizer& optimizer, std::int64_t step);

/// What gradients of this norm are multiplied by: min(1, max_norm / (norm + 1e-6)), as
/// torch.nn.utils.clip_grad_norm_ does it.
double clip_factor(double norm, double max_norm);

/// The loss is multiplied by a scale before backward, so that small gradients do not vanish in
/// float16, and gradients are divided by it again; a step in which some are not finite moves no
/// parameter. As torch.amp.GradScaler does it: twice the scale after `growth_interval` such steps
/// without one that is not finite, half of it after one that is not.
struct LossScaling {
  double initial = 65536.0;
  std::int64_t growth_interval = 2000;  ///< 0: the scale stays as it is

  bool operator==(const LossScaling&) const = default;
};
/// Whether a run in this precision scales its loss.
constexpr bool scales_loss(DType precision) { return precision == DType::kFloat16; }

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
  LossScaling loss_scaling;  ///< where scales_loss(precision)
  DataSource data;
  std::uint64_t seed = 1;  ///< keys initialisation, dropout, synthetic data and shuffling

  bool operator==(const Workload&) const = default;
};

/// More positions per step than this, and sizes in bytes would no longer fit 63 bits.
inline constexpr std::int64_t kMostPositions = std::int64_t{1} << 40;

/// Throws InputError when numbers are not finite, a step would have more than kMostPositions
/// positions, or the learning rate's schedule contradicts itself.
void check_workload(const Workload& workload);

}  // namespace parplan
