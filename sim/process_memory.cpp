#include "sim/process_memory.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "sim/core/collective_algorithm.hpp"
#include "sim/core/resident_memory.hpp"

namespace parplan::sim {
namespace {

/// Most bytes of the intervals [begin, end) that hold one moment.
class Overlap {
 public:
  void add(std::int64_t begin_ps, std::int64_t end_ps, std::int64_t bytes) {
    changes_.push_back({begin_ps, bytes});
    changes_.push_back({end_ps, -bytes});
  }
  std::int64_t most() {
    std::sort(changes_.begin(), changes_.end());  // at equal times ends come first
    std::int64_t now = 0;
    std::int64_t result = 0;
    for (const auto& [time_ps, bytes] : changes_) {
      now += bytes;
      result = std::max(result, now);
    }
    return result;
  }

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> changes_;
};

std::int64_t largest_single(const Program& program, const RankClass& rank_class) {
  const std::int64_t element = bytes_of(program.precision);
  std::int64_t most = 0;
  for (const Body& body : rank_class.bodies) {
    for (const Operation& o : body.operations) {
      if (o.code != OpCode::kTensorAllReduce) continue;
      most = std::max(most, all_reduce_scratch_bytes(o.shape.rows * o.shape.columns, element,
                                                     program.layout.tp));
    }
  }
  for (const Instruction& i : rank_class.instructions) {
    if (i.kind == InstructionKind::kReduceTied) {
      const std::int64_t state = bytes_of(state_type(program.precision));
      most = std::max(most, all_reduce_scratch_bytes(i.flat_end - i.flat_begin, state,
                                                     static_cast<int>(i.group_positions.size())));
    }
  }
  return most;
}

bool is_product(OpCode code) {
  return code == OpCode::kLinearForward || code == OpCode::kLinearBackwardInput ||
         code == OpCode::kLinearBackwardWeight;
}

}  // namespace

std::int64_t distinct_products(const RankClass& rank_class, int microbatches) {
  using Product = std::pair<OpCode, std::array<std::int64_t, 4>>;
  std::set<Product> products;
  for (const Body& body : rank_class.bodies) {
    for (const Operation& o : body.operations) {
      if (!is_product(o.code)) continue;
      const Write write = o.outputs.front().write;
      const auto add = [&](bool accumulates) {
        products.insert({o.code, {o.shape.rows, o.shape.columns, o.shape.inner, accumulates}});
      };
      if (write != Write::kAccumulate) add(false);
      if (write == Write::kAccumulate || (write == Write::kOverwriteFirst && microbatches > 1)) {
        add(true);
      }
    }
  }
  return static_cast<std::int64_t>(products.size());
}

std::vector<Bytes> reduction_scratch(const Program& program, const StepGraph& step,
                                     const Timeline& line) {
  const std::size_t classes = program.classes.size();
  std::vector<std::vector<std::int64_t>> issued_ps(classes);
  for (std::size_t c = 0; c < classes; ++c) {
    issued_ps[c].resize(program.classes[c].instructions.size());
  }
  std::vector<Overlap> overlaps(classes);
  std::vector<std::vector<std::int64_t>> completed_ps(classes);  // by reduction, in their order
  for (std::size_t t = 0; t < step.tasks.size(); ++t) {
    const StepTask& task = step.tasks[t];
    // An instruction's overhead is a task before its collective.
    if (task.part == StepTask::Part::kOverhead) {
      issued_ps[task.rank_class][task.instruction] = line.finish_ps[t];
    }
    if (task.part != StepTask::Part::kCollective) continue;
    const Instruction& i = program.classes[task.rank_class].instructions[task.instruction];
    if (i.kind != InstructionKind::kReduce) continue;
    std::vector<std::int64_t>& completed = completed_ps[task.rank_class];
    std::int64_t begin_ps = issued_ps[task.rank_class][task.instruction];
    if (completed.size() >= kRingsAtOnce) {
      begin_ps = std::max(begin_ps, completed[completed.size() - kRingsAtOnce]);
    }
    completed.push_back(line.finish_ps[t]);
    overlaps[task.rank_class].add(
        begin_ps, line.finish_ps[t],
        all_reduce_scratch_bytes(i.flat_end - i.flat_begin, bytes_of(state_type(program.precision)),
                                 program.layout.dp));
  }
  std::vector<Bytes> result;
  for (std::size_t c = 0; c < classes; ++c) {
    result.emplace_back(std::max(overlaps[c].most(), largest_single(program, program.classes[c])));
  }
  return result;
}

std::vector<Bytes> process_bytes(const Plan& plan, const Program& program,
                                 const std::vector<MemoryReplay>& replays, const StepGraph& step,
                                 const Timeline& line, const Cluster& cluster) {
  const DeviceSpec& device = cluster.device;
  const bool has_peers = plan.layout.ranks() > 1;
  const std::vector<Bytes> scratch =
      has_peers ? reduction_scratch(program, step, line) : std::vector<Bytes>{};
  std::vector<Bytes> result;
  for (std::size_t k = 0; k < program.classes.size(); ++k) {
    const RankClass& c = program.classes[k];
    Bytes bytes =
        device.process_bytes + resident_block_bytes(c, program.precision, replays[k].arena) +
        resident_input_bytes(c, plan.model, plan.workload) + resident_bytes(widening_bytes(c));
    if (state_type(program.precision) == DType::kFloat32) {
      bytes += Bytes{device.product_bytes.value * distinct_products(c, plan.layout.microbatches)};
    }
    if (has_peers) bytes += device.transport_bytes + scratch[k];
    result.push_back(bytes);
  }
  return result;
}

}  // namespace parplan::sim
