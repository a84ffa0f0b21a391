#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/model.hpp"
#include "sim/core/program.hpp"

namespace parplan {

/// How tensor parallelism over `tp` ranks cuts the model's values and parameters.
///
/// Column-parallel linears split their output features, row-parallel ones take split features and
/// sum; element-wise ops, rotary and attention keep the split; norms and losses over whole features
/// need them whole. The vocabulary may be split unevenly: each rank holds ceil(rows / tp) rows and
/// the last ones are padding. Everything else must divide.
class TensorSharding {
 public:
  /// `problems` receives one sentence per rule that the model breaks at this tp; with problems the
  /// object is not to be used further.
  TensorSharding(const Model& model, int tp, std::vector<std::string>& problems);

  int ranks() const { return tp_; }
  /// What divides everything that must divide: where there are problems, the tensor ranks that have
  /// none are its divisors.
  std::int64_t common_divisor() const { return common_divisor_; }
  Sharding of(ValueId value) const { return values_[value.index]; }
  bool split(ValueId value) const { return of(value) == Sharding::kColumns; }
  /// Features of the value on one rank.
  std::int64_t local_features(ValueId value) const;
  /// Which dimension of the parameter is split: kNone when tp is 1.
  Split split(ParameterId parameter) const;
  std::int64_t local_rows(ParameterId parameter) const;
  std::int64_t local_columns(ParameterId parameter) const;

 private:
  const Model& model_;
  int tp_;
  std::vector<Sharding> values_;
  std::int64_t common_divisor_ = 0;
};

}  // namespace parplan
