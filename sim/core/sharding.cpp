#include "sim/core/sharding.hpp"

#include <numeric>
#include <variant>

#include "sim/core/message_text.hpp"

namespace parplan {
namespace {

std::int64_t ceil_divide(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

/// Derives the sharding of each op's output from its inputs.
class Propagation {
 public:
  Propagation(const Model& model, int tp, std::vector<Sharding>& values,
              std::vector<std::string>& problems)
      : model_(model),
        tp_(tp),
        values_(values),
        problems_(problems),
        feeds_others_(model.values.size(), false) {
    for (const Op& op : model.ops) {
      if (std::holds_alternative<CrossEntropyOp>(op.body)) continue;
      for (const ValueId v : op.inputs) feeds_others_[v.index] = true;
    }
  }

  /// Returns what TensorSharding::common_divisor() is.
  std::int64_t run() {
    for (const Op& op : model_.ops) {
      op_ = &op;
      values_[op.output.index] =
          std::visit([this](const auto& body) { return output_of(body); }, op.body);
    }
    return common_divisor_;
  }

 private:
  Sharding input(std::size_t i) const { return values_[op_->inputs[i].index]; }

  void problem(const std::string& what) {
    problems_.push_back("op " + quoted_name(model_.value(op_->output).name) + ": " + what);
  }
  /// A split that no number of ranks but 1 can do.
  void never(const std::string& what) {
    problem(what);
    common_divisor_ = 1;
  }
  void must_divide(std::int64_t count, const std::string& what) {
    common_divisor_ = std::gcd(common_divisor_, count);
    if (count % tp_ != 0) {
      problem(std::to_string(count) + " " + what + " do not divide by tp=" + std::to_string(tp_));
    }
  }
  void must_be_whole(std::size_t i) {
    if (input(i) != Sharding::kReplicated) {
      never("needs all features of " + quoted_name(model_.value(op_->inputs[i]).name) +
            ", which tensor parallelism splits");
    }
  }
  Sharding like_inputs() {
    for (std::size_t i = 1; i < op_->inputs.size(); ++i) {
      if (input(i) != input(0)) never("one of its inputs is split over tp and another is not");
    }
    return input(0);
  }
  bool feeds_only_cross_entropy() const { return !feeds_others_[op_->output.index]; }

  Sharding output_of(const EmbeddingOp&) { return Sharding::kReplicated; }
  Sharding output_of(const PositionEmbeddingOp&) {
    must_be_whole(0);
    return Sharding::kReplicated;
  }
  Sharding output_of(const LinearOp& body) {
    switch (body.parallel) {
      case LinearParallel::kReplicated:
        must_be_whole(0);
        return Sharding::kReplicated;
      case LinearParallel::kColumn:
        must_be_whole(0);
        if (!feeds_only_cross_entropy()) must_divide(body.out, "output features");
        return Sharding::kColumns;
      case LinearParallel::kColumnGather:
        must_be_whole(0);
        must_divide(body.out, "output features");
        return Sharding::kReplicated;
      case LinearParallel::kRow:
        must_divide(body.in, "input features");
        return Sharding::kReplicated;
    }
    return Sharding::kReplicated;
  }
  Sharding output_of(const ActivationOp&) { return like_inputs(); }
  Sharding output_of(const SwigluOp&) { return like_inputs(); }
  Sharding output_of(const ResidualOp&) { return like_inputs(); }
  Sharding output_of(const DropoutOp&) { return like_inputs(); }
  Sharding output_of(const LayerNormOp&) {
    must_be_whole(0);
    return Sharding::kReplicated;
  }
  Sharding output_of(const RmsNormOp&) {
    must_be_whole(0);
    return Sharding::kReplicated;
  }
  Sharding output_of(const RotaryOp& body) {
    if (input(0) == Sharding::kColumns) must_divide(body.heads, "heads");
    return input(0);
  }
  Sharding output_of(const AttentionOp& body) {
    if (input(0) == Sharding::kColumns) {
      must_divide(body.heads, "heads");
      must_divide(body.kv_heads, "key/value heads");
    }
    return like_inputs();
  }
  Sharding output_of(const CrossEntropyOp&) { return Sharding::kReplicated; }
  Sharding output_of(const SquaredErrorOp&) {
    must_be_whole(0);
    return Sharding::kReplicated;
  }

  const Model& model_;
  int tp_;
  std::vector<Sharding>& values_;
  std::vector<std::string>& problems_;
  std::vector<bool> feeds_others_;  ///< by value: whether an op that is no cross entropy needs it
  const Op* op_ = nullptr;
  std::int64_t common_divisor_ = 0;
};

}  // namespace

TensorSharding::TensorSharding(const Model& model, int tp, std::vector<std::string>& problems)
    : model_(model), tp_(tp), values_(model.values.size(), Sharding::kReplicated) {
  if (tp > 1) common_divisor_ = Propagation(model, tp, values_, problems).run();
}

std::int64_t TensorSharding::local_features(ValueId value) const {
  const std::int64_t features = model_.value(value).features;
  return split(value) ? ceil_divide(features, tp_) : features;
}

Split TensorSharding::split(ParameterId parameter) const {
  return tp_ > 1 ? model_.parameter(parameter).split : Split::kNone;
}

std::int64_t TensorSharding::local_rows(ParameterId parameter) const {
  const std::int64_t rows = model_.parameter(parameter).rows;
  return split(parameter) == Split::kRows ? ceil_divide(rows, tp_) : rows;
}

std::int64_t TensorSharding::local_columns(ParameterId parameter) const {
  const std::int64_t columns = model_.parameter(parameter).columns;
  return split(parameter) == Split::kColumns ? columns / tp_ : columns;
}

}  // namespace parplan
