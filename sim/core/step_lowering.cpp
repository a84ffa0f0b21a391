#include "sim/core/step_lowering.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/op_work.hpp"

namespace parplan {
namespace {

/// Parameters that several positions hold; their gradients are summed over these first.
std::map<std::uint32_t, std::vector<int>> tied_positions(const std::vector<LoweredClass>& classes) {
  std::map<std::uint32_t, std::vector<int>> holders;
  for (const LoweredClass& c : classes) {
    for (const ParameterShard& shard : c.rank_class.parameters) {
      holders[shard.parameter.index].push_back(c.rank_class.position);
    }
  }
  std::erase_if(holders, [](const auto& item) { return item.second.size() < 2; });
  return holders;
}

using TiedPositions = std::map<std::uint32_t, std::vector<int>>;

/// Lays parameters out in the order in which backward finishes their gradients, so that a bucket is
/// a contiguous range; tied ones come last, each in a bucket of its own.
class FlatOrder {
 public:
  FlatOrder(const Stack& stack, const TiedPositions& tied, DType dtype, LoweredClass& lowered)
      : stack_(stack), tied_(tied), element_bytes_(bytes_of(dtype)), lowered_(lowered) {}

  /// For each bucket the point of backward after which it is complete; none for tied buckets.
  std::vector<std::optional<WorkPoint>> assign(bool several_buckets) {
    std::vector<std::size_t> order(lowered_.rank_class.parameters.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return std::pair(is_tied(a), *lowered_.gradient_ready[a]) <
             std::pair(is_tied(b), *lowered_.gradient_ready[b]);
    });
    for (const std::size_t i : order) {
      const bool tied = is_tied(i);
      if (tied || (several_buckets && open_bytes() >= stack_.bucket_bytes.value)) close();
      place(i);
      if (tied) close();
    }
    close();
    lowered_.rank_class.flat_elements = next_;
    return std::move(ready_);
  }

 private:
  static constexpr std::int64_t kAlignment = 16;  // elements; 64 bytes of float32

  bool is_tied(std::size_t shard) const {
    return tied_.contains(lowered_.rank_class.parameters[shard].parameter.index);
  }
  std::int64_t open_bytes() const { return (next_ - begin_) * element_bytes_; }

  void place(std::size_t i) {
    RankClass& c = lowered_.rank_class;
    ParameterShard& shard = c.parameters[i];
    shard.flat_offset = next_;
    c.tensors[shard.weight.index].flat_offset = next_;
    c.tensors[shard.gradient.index].flat_offset = next_;
    const std::int64_t count = shard.local_rows * shard.local_columns;
    next_ += (count + kAlignment - 1) / kAlignment * kAlignment;
    if (!is_tied(i)) open_ready_ = lowered_.gradient_ready[i];
  }
  void close() {
    if (next_ == begin_) return;
    lowered_.rank_class.buckets.push_back({begin_, next_});
    ready_.push_back(open_ready_);
    open_ready_.reset();
    begin_ = next_;
  }

  const Stack& stack_;
  const TiedPositions& tied_;
  std::int64_t element_bytes_;
  LoweredClass& lowered_;
  std::int64_t next_ = 0;
  std::int64_t begin_ = 0;
  std::optional<WorkPoint> open_ready_;
  std::vector<std::optional<WorkPoint>> ready_;
};

/// A piece of compute work of one position.
struct Work {
  StepKind kind = StepKind::kForward;
  int microbatch = 0;
  int chunk = 0;
};

/// Writes the instruction list of one class.
class StepWriter {
 public:
  StepWriter(const LoweringContext& context, const Stack& stack, const TiedPositions& tied,
             LoweredClass& lowered, std::vector<std::optional<WorkPoint>> bucket_ready)
      : context_(context),
        stack_(stack),
        tied_(tied),
        lowered_(lowered),
        list_(lowered.rank_class.instructions),
        bucket_ready_(std::move(bucket_ready)) {}

  void write() {
    const std::vector<Work> works = all_work();
    std::vector<std::vector<std::uint32_t>> received(works.size());
    for (std::size_t k = 0; k < works.size(); ++k) {
      if (k == 0) received[0] = post_receives(works[0]);
      if (k + 1 < works.size()) received[k + 1] = post_receives(works[k + 1]);
      retire_sends(k);
      run(works[k], received[k]);
      send(works[k], k);
    }
    finish_step();
  }

 private:
  struct OutstandingSend {
    std::uint32_t instruction = 0;
    std::size_t work = 0;
    TensorId tensor;
    int microbatch = 0;
    bool free_after = false;
  };

  int position() const { return lowered_.rank_class.position; }

  std::vector<Work> all_work() const {
    const Layout& layout = context_.layout;
    std::vector<Work> works;
    if (layout.mp > 1) {
      for (std::size_t c = 0; c < context_.chunks.size(); ++c) {
        if (context_.chunks[c].position == position()) {
          works.push_back({StepKind::kForward, 0, static_cast<int>(c)});
        }
      }
      const std::size_t forwards = works.size();
      for (std::size_t i = forwards; i > 0; --i) {
        works.push_back({StepKind::kBackward, 0, works[i - 1].chunk});
      }
      return works;
    }
    for (const ScheduleStep& step :
         stage_order(layout.schedule, layout.pp, layout.microbatches, position())) {
      works.push_back({step.kind, step.microbatch, position()});
    }
    return works;
  }

  Key instruction_key(Phase phase, const Work& work, std::uint32_t item) const {
    return Key(phase, static_cast<std::uint32_t>(work.chunk),
               static_cast<std::uint32_t>(work.microbatch), Key::kNone, item,
               Key::kWholeInstruction);
  }

  Instruction transfer(InstructionKind kind, Phase phase, const Work& work, ValueId value, int peer,
                       TensorId tensor) const {
    Instruction instruction;
    instruction.key = instruction_key(phase, work, value.index);
    instruction.kind = kind;
    instruction.stream =
        kind == InstructionKind::kSend ? Stream::kPipelineSend : Stream::kPipelineReceive;
    instruction.microbatch = work.microbatch;
    instruction.peer = peer;
    instruction.tensor = tensor;
    instruction.bytes = lowered_.rank_class.tensors[tensor.index].bytes();
    return instruction;
  }

  /// Transfers are keyed by the chunk that makes the value, so that both ends carry one name.
  Work named_by(const Work& work, int chunk) const { return {work.kind, work.microbatch, chunk}; }

  std::vector<std::uint32_t> post_receives(const Work& work) {
    std::vector<std::uint32_t> posted;
    for (const ValueTransfer& t : context_.transfers) {
      const bool activation =
          work.kind == StepKind::kForward && t.to == position() && t.first_chunk == work.chunk;
      const bool gradient = work.kind == StepKind::kBackward && t.from == position() &&
                            t.from_chunk == work.chunk && context_.needs_gradient[t.value.index];
      if (!activation && !gradient) continue;
      const TensorId tensor = activation ? *lowered_.value_tensors[t.value.index]
                                         : lowered_.received_gradients.at({t.value.index, t.to});
      Instruction receive =
          transfer(InstructionKind::kReceive,
                   activation ? Phase::kReceiveActivation : Phase::kReceiveGradient,
                   named_by(work, t.from_chunk), t.value, activation ? t.from : t.to, tensor);
      receive.allocates = {tensor};
      posted.push_back(static_cast<std::uint32_t>(list_.size()));
      list_.push_back(std::move(receive));
    }
    return posted;
  }

  /// Sends of work before the previous one end here; what they held is freed.
  void retire_sends(std::size_t k) {
    for (auto it = sends_.begin(); it != sends_.end();) {
      if (it->work + 2 > k) {
        ++it;
        continue;
      }
      retire(*it);
      it = sends_.erase(it);
    }
  }
  void retire(const OutstandingSend& send) {
    next_waits_.push_back(send.instruction);
    if (send.free_after) next_frees_.push_back({send.tensor, send.microbatch});
  }

  /// Runs a body, in segments where gradient buckets become complete in the step's last backward.
  void run(const Work& work, const std::vector<std::uint32_t>& received) {
    const BodyKind kind =
        work.kind == StepKind::kForward ? BodyKind::kForward : BodyKind::kBackward;
    const int body = lowered_.body_of.at({work.chunk, kind});
    const int operations = static_cast<int>(lowered_.rank_class.bodies[body].operations.size());
    wait_for_sends_freed_by(body, work.microbatch);
    next_waits_.insert(next_waits_.end(), received.begin(), received.end());
    const bool reduces =
        context_.layout.dp > 1 && stack_.overlap_gradient_reduction && is_last_backward(work);
    int begin = 0;
    if (reduces) {
      for (std::size_t b = 0; b < bucket_ready_.size(); ++b) {
        const auto& ready = bucket_ready_[b];
        if (!ready || ready->body != body) continue;
        if (ready->operation + 1 > begin) {
          push_run(work, body, begin, ready->operation + 1);
          begin = ready->operation + 1;
        }
        reduce(static_cast<int>(b), {});
      }
    }
    if (begin < operations || (begin == 0 && operations == 0)) {
      push_run(work, body, begin, operations);
    }
  }

  bool is_last_backward(const Work& work) const {
    return work.kind == StepKind::kBackward && work.microbatch == context_.layout.microbatches - 1;
  }

  /// An operation of this body may free a tensor that is still being sent.
  void wait_for_sends_freed_by(int body, int microbatch) {
    std::set<std::uint32_t> freed;
    for (const Operation& operation : lowered_.rank_class.bodies[body].operations) {
      for (const TensorId t : operation.frees) freed.insert(t.index);
    }
    for (auto it = sends_.begin(); it != sends_.end();) {
      if (it->microbatch == microbatch && freed.contains(it->tensor.index)) {
        next_waits_.push_back(it->instruction);
        it = sends_.erase(it);
      } else {
        ++it;
      }
    }
  }

  void push_run(const Work& work, int body, int begin, int end) {
    Instruction instruction;
    instruction.key =
        instruction_key(work.kind == StepKind::kForward ? Phase::kForward : Phase::kBackward, work,
                        static_cast<std::uint32_t>(begin));
    instruction.microbatch = work.microbatch;
    instruction.body = body;
    instruction.op_begin = begin;
    instruction.op_end = end;
    push(std::move(instruction));
  }

  void push(Instruction instruction) {
    instruction.waits.insert(instruction.waits.end(), next_waits_.begin(), next_waits_.end());
    std::sort(instruction.waits.begin(), instruction.waits.end());
    instruction.frees_before = std::move(next_frees_);
    next_waits_.clear();
    next_frees_.clear();
    list_.push_back(std::move(instruction));
  }

  void send(const Work& work, std::size_t k) {
    for (const ValueTransfer& t : context_.transfers) {
      const bool activation =
          work.kind == StepKind::kForward && t.from == position() && t.from_chunk == work.chunk;
      const bool gradient = work.kind == StepKind::kBackward && t.to == position() &&
                            t.first_chunk == work.chunk && context_.needs_gradient[t.value.index];
      if (!activation && !gradient) continue;
      const TensorId tensor = activation ? *lowered_.value_tensors[t.value.index]
                                         : lowered_.sent_gradients.at(t.value.index);
      const bool used_later = is_freed_by_an_operation(tensor);
      const bool sent_again = activation && is_sent_after(t);
      sends_.push_back({static_cast<std::uint32_t>(list_.size()), k, tensor, work.microbatch,
                        !used_later && !sent_again});
      list_.push_back(transfer(
          InstructionKind::kSend, activation ? Phase::kSendActivation : Phase::kSendGradient,
          named_by(work, t.from_chunk), t.value, activation ? t.to : t.from, tensor));
    }
  }

  bool is_freed_by_an_operation(TensorId tensor) const {
    const auto& last = lowered_.last_use[tensor.index];
    if (!last) return false;
    const auto& frees = lowered_.rank_class.bodies[last->body].operations[last->operation].frees;
    return std::find(frees.begin(), frees.end(), tensor) != frees.end();
  }

  /// The same value goes to a further position later in the transfer list; the last send frees it.
  bool is_sent_after(const ValueTransfer& transfer) const {
    const auto same = [&](const ValueTransfer& t) {
      return t.value == transfer.value && t.from == transfer.from;
    };
    const auto last = std::find_if(context_.transfers.rbegin(), context_.transfers.rend(), same);
    return last->to != transfer.to;
  }

  Bytes reduced_bytes(const Bucket& range) const {
    return Bytes{(range.end - range.begin) * bytes_of(state_type(context_.workload.precision))};
  }

  void reduce(int bucket, std::vector<std::uint32_t> waits) {
    const Bucket& range = lowered_.rank_class.buckets[bucket];
    Instruction instruction;
    instruction.key = Key(Phase::kReduceGradients, 0, 0, Key::kNone,
                          static_cast<std::uint32_t>(bucket), Key::kWholeInstruction);
    instruction.kind = InstructionKind::kReduce;
    instruction.stream = Stream::kDataParallel;
    instruction.bucket = bucket;
    instruction.flat_begin = range.begin;
    instruction.flat_end = range.end;
    instruction.bytes = reduced_bytes(range);
    instruction.waits = std::move(waits);
    reductions_[bucket].push_back(static_cast<std::uint32_t>(list_.size()));
    list_.push_back(std::move(instruction));
  }

  void finish_step() {
    for (const OutstandingSend& send : sends_) retire(send);
    sends_.clear();
    reduce_tied();
    if (context_.layout.dp > 1) {
      for (std::size_t b = 0; b < bucket_ready_.size(); ++b) {
        const int bucket = static_cast<int>(b);
        const bool done = reductions_.contains(bucket) && bucket_ready_[b].has_value();
        if (!done) reduce(bucket, reductions_[bucket]);
      }
    }
    const Workload& workload = context_.workload;
    if (workload.optimizer.max_gradient_norm || scales_loss(workload.precision)) find_norm();
    for (std::size_t b = 0; b < bucket_ready_.size(); ++b) optimize(static_cast<int>(b));
  }

  /// The norm of the whole gradient, once all of it is reduced; the optimizer waits for it.
  void find_norm() {
    RankClass& c = lowered_.rank_class;
    for (const ParameterShard& shard : c.parameters) add_norm_range(shard);
    std::sort(c.norm_ranges.begin(), c.norm_ranges.end(),
              [](const NormRange& a, const NormRange& b) { return a.begin < b.begin; });
    join_norm_ranges();
    Instruction norm;
    norm.key = Key(Phase::kGradientNorm, 0, 0, Key::kNone, 0, Key::kWholeInstruction);
    norm.kind = InstructionKind::kGradientNorm;
    norm.flat_end = c.flat_elements;
    norm.bytes = traffic_of(OpCode::kGradientNorm, {.rows = 1, .columns = c.flat_elements},
                            context_.workload.precision);
    for (const auto& [bucket, reductions] : reductions_) norm.waits.push_back(reductions.back());
    push(std::move(norm));
    reductions_.clear();
    if (context_.layout.tp * context_.layout.positions() == 1) return;
    Instruction reduce;
    reduce.key = Key(Phase::kReduceNorm, 0, 0, Key::kNone, 0, Key::kWholeInstruction);
    reduce.kind = InstructionKind::kReduceNorm;
    reduce.stream = Stream::kNorm;
    reduce.bytes = Bytes{bytes_of(DType::kFloat64)};
    norm_reduction_ = static_cast<std::uint32_t>(list_.size());
    list_.push_back(std::move(reduce));
  }

  void add_norm_range(const ParameterShard& shard) {
    int holders = shard.split == Split::kNone ? context_.layout.tp : 1;
    if (const auto tied = tied_.find(shard.parameter.index); tied != tied_.end()) {
      holders *= static_cast<int>(tied->second.size());
    }
    lowered_.rank_class.norm_ranges.push_back(
        {shard.flat_offset, shard.flat_offset + shard.local_rows * shard.local_columns,
         1.0 / holders});
  }

  /// Neighbours with equal shares become one; the gaps between parameters are zero.
  void join_norm_ranges() {
    std::vector<NormRange>& ranges = lowered_.rank_class.norm_ranges;
    std::vector<NormRange> joined;
    for (const NormRange& range : ranges) {
      if (!joined.empty() && joined.back().share == range.share) {
        joined.back().end = range.end;
      } else {
        joined.push_back(range);
      }
    }
    ranges = std::move(joined);
  }

  void reduce_tied() {
    std::vector<std::pair<std::uint32_t, const ParameterShard*>> shards;
    for (const ParameterShard& shard : lowered_.rank_class.parameters) {
      if (tied_.contains(shard.parameter.index)) shards.push_back({shard.parameter.index, &shard});
    }
    std::sort(shards.begin(), shards.end());  // one order on all positions
    for (const auto& [parameter, shard] : shards) {
      const auto& buckets = lowered_.rank_class.buckets;
      const std::int64_t begin = shard->flat_offset;
      const auto bucket = std::find_if(buckets.begin(), buckets.end(),
                                       [begin](const Bucket& b) { return b.begin == begin; });
      ensure(bucket != buckets.end(), "a tied parameter has a bucket of its own");
      Instruction instruction;
      instruction.key =
          Key(Phase::kReduceTied, 0, 0, Key::kNone, parameter, Key::kWholeInstruction);
      instruction.kind = InstructionKind::kReduceTied;
      instruction.stream = Stream::kTied;
      instruction.flat_begin = bucket->begin;
      instruction.flat_end = bucket->end;
      instruction.group_positions = tied_.at(parameter);
      instruction.bucket = static_cast<int>(bucket - buckets.begin());
      instruction.bytes = reduced_bytes(*bucket);
      reductions_[instruction.bucket].push_back(static_cast<std::uint32_t>(list_.size()));
      list_.push_back(std::move(instruction));
    }
  }

  void optimize(int bucket) {
    const Bucket& range = lowered_.rank_class.buckets[bucket];
    Instruction instruction;
    instruction.key = Key(Phase::kOptimizer, 0, 0, Key::kNone, static_cast<std::uint32_t>(bucket),
                          Key::kWholeInstruction);
    instruction.kind = InstructionKind::kOptimizer;
    instruction.bucket = bucket;
    instruction.flat_begin = range.begin;
    instruction.flat_end = range.end;
    instruction.bytes = traffic_of(OpCode::kAdam, {.rows = 1, .columns = range.end - range.begin},
                                   context_.workload.precision);
    if (const auto it = reductions_.find(bucket); it != reductions_.end()) {
      instruction.waits = {it->second.back()};
    }
    if (norm_reduction_) instruction.waits = {*norm_reduction_};
    push(std::move(instruction));
  }

  const LoweringContext& context_;
  const Stack& stack_;
  const TiedPositions& tied_;
  LoweredClass& lowered_;
  std::vector<Instruction>& list_;
  std::vector<std::optional<WorkPoint>> bucket_ready_;
  std::vector<OutstandingSend> sends_;
  std::vector<std::uint32_t> next_waits_;
  std::vector<TensorInstance> next_frees_;
  std::map<int, std::vector<std::uint32_t>> reductions_;  ///< per bucket: its reductions so far
  std::optional<std::uint32_t> norm_reduction_;
};

}  // namespace

void lower_step(const LoweringContext& context, const Stack& stack,
                std::vector<LoweredClass>& classes) {
  const TiedPositions tied = tied_positions(classes);
  for (LoweredClass& lowered : classes) {
    auto ready = FlatOrder(stack, tied, state_type(context.workload.precision), lowered)
                     .assign(context.layout.dp > 1);
    StepWriter(context, stack, tied, lowered, std::move(ready)).write();
  }
}

}  // namespace parplan
