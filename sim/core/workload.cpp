#include "sim/core/workload.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "sim/core/error.hpp"

namespace parplan {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

void check_schedule(const Optimizer& o) {
  const LearningRateSchedule& s = o.schedule;
  if (s.decay == Decay::kConstant) {
    if (s.decay_steps != 0 || s.min_learning_rate != 0.0) {
      throw InputError(
          "decay steps and a least learning rate need a linear or cosine decay of the learning "
          "rate");
    }
    return;
  }
  if (s.decay_steps <= s.warmup_steps) {
    throw InputError("the learning rate decays until step " + std::to_string(s.decay_steps) +
                     ", which must be later than the last step of its warm-up, " +
                     std::to_string(s.warmup_steps));
  }
  if (s.min_learning_rate > o.learning_rate) {
    throw InputError("the least learning rate is larger than the learning rate");
  }
}

void check_loss_scaling(const Workload& w) {
  const LossScaling& s = w.loss_scaling;
  if (!scales_loss(w.precision) && !(s == LossScaling{})) {
    throw InputError("only float16 scales its loss; leave the loss scaling out");
  }
  if (!(s.initial > 0.0 && s.initial < kInf)) {
    throw InputError("the first loss scale must be a positive number");
  }
}

}  // namespace

double learning_rate_at(const Optimizer& o, std::int64_t step) {
  const LearningRateSchedule& s = o.schedule;
  if (step < s.warmup_steps) {
    return o.learning_rate * static_cast<double>(step) / static_cast<double>(s.warmup_steps);
  }
  if (s.decay == Decay::kConstant) return o.learning_rate;
  const double done = std::min(1.0, static_cast<double>(step - s.warmup_steps) /
                                        static_cast<double>(s.decay_steps - s.warmup_steps));
  const double left =
      s.decay == Decay::kLinear ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return s.min_learning_rate + left * (o.learning_rate - s.min_learning_rate);
}

double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor >= 1.0 ? 1.0 : factor;  // not a number stays one, as there
}

void check_workload(const Workload& w) {
  const std::int64_t sequence = std::max({w.sequence, w.source_sequence, std::int64_t{1}});
  if (w.global_batch > kMostPositions / sequence) {
    throw InputError(
        "a step of " + std::to_string(w.global_batch) + " samples of " + std::to_string(sequence) +
        " positions is larger than the " + std::to_string(kMostPositions) +
        " positions that can be planned; make the global batch or the sequence smaller");
  }
  if (w.data.samples > kMostPositions) {
    throw InputError("a data set of " + std::to_string(w.data.samples) +
                     " samples is larger than the " + std::to_string(kMostPositions) +
                     " that can be planned");
  }
  for (const double number : {w.optimizer.learning_rate, w.optimizer.weight_decay}) {
    if (!std::isfinite(number)) {
      throw InputError("learning rate and weight decay must be finite numbers");
    }
  }
  if (const auto& norm = w.optimizer.max_gradient_norm; norm && !(*norm > 0.0 && *norm < kInf)) {
    throw InputError("the largest gradient norm must be a positive number");
  }
  check_schedule(w.optimizer);
  check_loss_scaling(w);
}

}  // namespace parplan
