#pragma once

#include "sim/core/model.hpp"
#include "sim/core/program.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// A synthetic set of real features is drawn once, before the first step, and kept in memory up to
/// this size; beyond it the samples are drawn at every step.
inline constexpr Bytes kResidentInputLimit{std::int64_t{1} << 30};

/// What one input value of a synthetic data set takes when it is kept: 0 for token ids and classes,
/// which are drawn at every step, for values beyond kResidentInputLimit and for token files.
Bytes resident_input_bytes(const Value& value, const Workload& workload);

/// The sum over the inputs that a rank of this class loads. Part of a rank's memory beside its
/// arena; not counted among the tensors.
Bytes resident_input_bytes(const RankClass& rank_class, const Model& model,
                           const Workload& workload);

}  // namespace parplan
