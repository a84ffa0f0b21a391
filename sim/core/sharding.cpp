#include "sim/core/sharding.hpp"

#include <variant>

namespace parplan {
namespace {

std::int64_t ceil_divide(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

/// Derives the sharding of each op's output from its inputs.
class Propagation {
 public:
  Propagation(const Model& model, int tp, std::vector<Sharding>& values,
              std::vector<std::string>& problems)
      : model_(model), tp_(tp), values_(values), problems_(problems) {}

  void run() {
    for (const Op& op : model_.ops) {
      op_ = &op;
      values_[op.output.index] =
          std::visit([this](const auto& body) { return output_of(body); }, op.body);
    }
  }

 private:
  Sharding input(std::size_t i) const { return values_[op_->inputs[i].index]; }

  void problem(const std::string& what) {
    problems_.push_back("op '" + model_.value(op_->output).name + "': " + what);
  }
  void must_divide(std::int64_t count, const std::string& what) {
    if (count % tp_ != 0) {
      problem(std::to_string(count) + " " + what + " do not divide by tp=" + std::to_string(tp_));
    }
  }
  void must_be_whole(std::size_t i) {
    if (input(i) != Sharding::kReplicated) {
      problem("needs all features of '" + model_.value(op_->inputs[i]).name +
              "', which tensor parallelism splits");
    }
  }
  Sharding like_inputs() {
    for (std::size_t i = 1; i < op_->inputs.size(); ++i) {
      if (input(i) != input(0)) problem("one of its inputs is split over tp and another is not");
    }
    return input(0);
  }
  bool feeds_only_cross_entropy() const {
    for (const Op& op : model_.ops) {
      for (const ValueId v : op.inputs) {
        if (v == op_->output && !std::holds_alternative<CrossEntropyOp>(op.body)) return false;
      }
    }
    return true;
  }

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
  const Op* op_ = nullptr;
};

}  // namespace

TensorSharding::TensorSharding(const Model& model, int tp, std::vector<std::string>& problems)
    : model_(model), tp_(tp), values_(model.values.size(), Sharding::kReplicated) {
  if (tp > 1) Propagation(model, tp, values_, problems).run();
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
