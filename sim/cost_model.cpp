#include "sim/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/collective_algorithm.hpp"
#include "sim/core/error.hpp"
#include "sim/core/op_work.hpp"
#include "sim/core_sharing.hpp"

namespace parplan::sim {
namespace {

double log_of(std::int64_t n) {
  return std::log(static_cast<double>(std::max<std::int64_t>(n, 1)));
}

bool is_product(OpCode code) {
  switch (code) {
    case OpCode::kLinearForward:
    case OpCode::kLinearBackwardInput:
    case OpCode::kLinearBackwardWeight:
    case OpCode::kAttentionForward:
    case OpCode::kAttentionBackward:
      return true;
    default:
      return false;
  }
}

bool is_attention(OpCode code) {
  return code == OpCode::kAttentionForward || code == OpCode::kAttentionBackward;
}

/// Below this many seconds a core's share of a transfer counts as nothing.
constexpr double kLeastCpu = 1e-9;

SampleTable::Coordinates bytes_coordinate(Bytes size) { return {log_of(size.value)}; }

Seconds read(const SampleTable& table, Bytes size) {
  const auto estimate = table.at(bytes_coordinate(size));
  return Seconds{estimate ? std::exp(estimate->log_y) : 0.0};
}

}  // namespace

CostModel::CostModel(const Cluster& cluster) : cluster_(cluster) {
  for (const OperationSample& sample : cluster.operations) {
    const Work work =
        work_of(sample.code, sample.shape, sample.dtype, sample.variant.causal, sample.working_set);
    if (work.units <= 0.0 || sample.median.value <= 0.0) continue;
    operations_[{sample.code, sample.dtype, sample.variant, sample.busy_ranks}].add(
        work.x, std::log(sample.median.value / work.units));
  }
  for (const TransferSample& sample : cluster.transfers) {
    if (sample.in_situ) continue;
    TransferTable& table = transfers_[{sample.kind, sample.ranks}];
    const auto x = bytes_coordinate(sample.bytes);
    table.wall.add(x, std::log(std::max(sample.median.value, kLeastCpu)));
    table.cpu.add(x, std::log(std::max(sample.cpu.value, kLeastCpu)));
    table.sender_cpu.add(x, std::log(std::max(sample.peer_cpu.value, kLeastCpu)));
  }
  for (const TransferSample& sample : cluster.transfers) {
    if (!sample.in_situ) continue;
    const TransferCost plain =
        from_benchmark(sample.kind, sample.ranks, sample.bytes, Span::kOneNode);
    if (plain.wall.value <= 0.0 || sample.median.value <= 0.0) continue;
    CorrectionTable& table = corrections_[{sample.kind, sample.ranks}];
    table.log_ratio.add(bytes_coordinate(sample.bytes), std::log(sample.median / plain.wall));
    table.least = std::min(table.least, sample.bytes);
    table.most = std::max(table.most, sample.bytes);
  }
  for (const CalibrationFactor& f : cluster.calibration) factors_[f.key] = f.factor;
}

namespace {

/// Log of the working set between 1 MiB, below which all stays in the caches, and 1 GiB, above
/// which nothing does. Only what goes through the whole gradient depends on it: it comes round once
/// a step, other operations find what was just made.
double cache_pressure(Bytes working_set) {
  return log_of(std::clamp(working_set.value, std::int64_t{1} << 20, std::int64_t{1} << 30));
}

}  // namespace

CostModel::Work CostModel::work_of(OpCode code, const OpShape& s, DType dtype, bool causal,
                                   Bytes working_set) {
  if (is_attention(code)) {
    // The heads of a row lie side by side: more of them, longer strides.
    return {{log_of(s.batch * s.heads), log_of(s.queries), log_of(s.keys), log_of(s.head_dim),
             0.25 * log_of(s.heads)},
            flop_of(code, s, causal).value};
  }
  if (is_product(code)) {
    return {{log_of(s.rows), log_of(s.columns), log_of(s.inner)}, flop_of(code, s).value};
  }
  // Rows that are short cost more per element than long ones: loops start once per row. Token ids
  // (one column) are drawn, features copied: two different operations under one code.
  const double copied = code == OpCode::kLoadInput && s.columns > 1 ? 10.0 : 0.0;
  return {{log_of(s.rows * s.columns), 0.5 * log_of(s.columns), 0.25 * log_of(s.inner), copied,
           is_of_whole_gradient(code) ? cache_pressure(working_set) : 0.0},
          std::max(1.0, static_cast<double>(traffic_of(code, s, dtype).value))};
}

double CostModel::factor(const std::string& key) const {
  const auto found = factors_.find(key);
  return found == factors_.end() ? 1.0 : found->second;
}

OperationCost CostModel::roofline(OpCode code, const OpShape& shape, DType dtype,
                                  bool causal) const {
  const DeviceSpec& device = cluster_.device;
  Seconds compute;
  if (const auto peak = device.peak.find(dtype); peak != device.peak.end()) {
    compute = flop_of(code, shape, causal) / peak->second;
  }
  Seconds memory;
  if (device.memory_bandwidth.value > 0.0) {
    memory = traffic_of(code, shape, dtype) / device.memory_bandwidth;
  }
  return {std::max(compute, memory), CostSource::kRoofline};
}

/// Of the variants that were measured the most alike: the exact one before simpler ones. Of its
/// tables those next to the wanted concurrency.
CostModel::Shares CostModel::tables_for(OpCode code, DType dtype, OpVariant variant,
                                        double busy_ranks) const {
  OpVariant writes = variant;
  writes.accumulate = false;
  OpVariant plain = writes;
  plain.dropout = false;
  for (const OpVariant& v : {variant, writes, plain}) {
    const auto end = operations_.lower_bound({code, dtype, v, std::numeric_limits<int>::max()});
    Shares shares;
    int fewer = 0;
    for (auto at = operations_.lower_bound({code, dtype, v, 0}); at != end; ++at) {
      const int busy = std::get<int>(at->first);
      if (shares[0].table == nullptr || busy <= busy_ranks) {
        shares[0] = {&at->second, 1.0};
        fewer = busy;
      } else {
        const double more = std::clamp((busy_ranks - fewer) / (busy - fewer), 0.0, 1.0);
        shares[0].weight -= more;
        shares[1] = {&at->second, more};
        break;
      }
    }
    if (shares[0].table != nullptr) return shares;
  }
  return {};
}

OperationCost CostModel::price(OpCode code, const OpShape& shape, OpVariant variant, DType dtype,
                               Conditions conditions) const {
  const Shares shares = tables_for(code, dtype, variant, conditions.busy_ranks);
  if (shares[0].table == nullptr) return roofline(code, shape, dtype, variant.causal);
  const Work work = work_of(code, shape, dtype, variant.causal, conditions.working_set);
  OperationCost cost{Seconds{}, CostSource::kMeasured};
  for (const auto& [table, weight] : shares) {
    if (weight <= 0.0) continue;
    const auto estimate = *table->at(work.x);
    double time = std::exp(estimate.log_y) * work.units;
    if (!estimate.exact) {
      time *= factor(std::string(name_of(code)));
      cost.source = CostSource::kInterpolated;
    }
    cost.time += Seconds{weight * time};
  }
  return cost;
}

Seconds CostModel::price_as_unmeasured(OpCode code, const OpShape& shape, OpVariant variant,
                                       DType dtype, Conditions conditions) const {
  const Shares shares = tables_for(code, dtype, variant, conditions.busy_ranks);
  const Work work = work_of(code, shape, dtype, variant.causal, conditions.working_set);
  Seconds time;
  for (const auto& [table, weight] : shares) {
    if (weight <= 0.0) continue;
    const auto estimate = table->at_without(work.x);
    if (!estimate) return roofline(code, shape, dtype, variant.causal).time;
    time += Seconds{weight * std::exp(estimate->log_y) * work.units};
  }
  return shares[0].table != nullptr ? time : roofline(code, shape, dtype, variant.causal).time;
}

OpVariant variant_in_microbatch(const Operation& operation, const OpBody& body, int microbatch) {
  const Write write =
      operation.outputs.empty() ? Write::kOverwrite : operation.outputs.front().write;
  return variant_of(
      body, write == Write::kAccumulate || (write == Write::kOverwriteFirst && microbatch > 0));
}

OperationCost CostModel::operation(const Operation& operation, const OpBody& body, DType dtype,
                                   int microbatch, Conditions conditions) const {
  return price(operation.code, operation.shape, variant_in_microbatch(operation, body, microbatch),
               dtype, conditions);
}

namespace {

std::vector<OpCode> products_of(const OpBody& body) {
  if (std::holds_alternative<LinearOp>(body)) {
    return {OpCode::kLinearForward, OpCode::kLinearBackwardInput, OpCode::kLinearBackwardWeight};
  }
  if (std::holds_alternative<AttentionOp>(body)) {
    return {OpCode::kAttentionForward, OpCode::kAttentionBackward};
  }
  return {};
}

}  // namespace

void CostModel::require_products(const Model& model, DType dtype) const {
  if (cluster_.device.peak.contains(dtype)) return;
  const std::string type(name_of(dtype));
  for (const Op& op : model.ops) {
    for (const OpCode code : products_of(op.body)) {
      if (tables_for(code, dtype, variant_of(op.body, false), 1.0)[0].table != nullptr) continue;
      throw InputError("machine '" + cluster_.name + "' does not say how fast " +
                       std::string(name_of(code)) + " is in " + type +
                       ": measure with 'parplan profile --precision " + type +
                       " -o FILE', or give device.peak_flop_per_s." + type);
    }
  }
}

OperationCost CostModel::adam(std::int64_t count, DType dtype, Conditions conditions) const {
  return price(OpCode::kAdam, {.rows = 1, .columns = count}, {}, dtype, conditions);
}

namespace {

/// What passes a link while the busiest rank sends one byte, in bytes.
double crowding(CollectiveKind kind, int ranks, Bytes size, const LinkSpec& link) {
  if (kind == CollectiveKind::kSendReceive) return 1.0;
  if (link.shared) return kind == CollectiveKind::kBroadcast ? ranks - 1 : ranks;
  // Two ranks send to each other at once; in a ring of more, each pair has one direction.
  const bool pairs_exchange = ranks == 2 || kind == CollectiveKind::kAllToAll ||
                              (kind == CollectiveKind::kAllReduce &&
                               choose_all_reduce(size.value, ranks) != AllReduceAlgorithm::kRing);
  const bool exchange = pairs_exchange && kind != CollectiveKind::kBroadcast;
  return link.half_duplex && exchange ? 2.0 : 1.0;
}

}  // namespace

TransferCost CostModel::without_samples(CollectiveKind kind, int ranks, Bytes size,
                                        Span span) const {
  const LinkSpec& link = span == Span::kOneNode ? cluster_.intra_node : cluster_.inter_node;
  CollectiveTraffic traffic{1, static_cast<double>(size.value)};
  switch (kind) {
    case CollectiveKind::kAllReduce:
      traffic = all_reduce_traffic(choose_all_reduce(size.value, ranks), size.value, ranks);
      break;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      traffic = ring_half_traffic(size.value, ranks);
      break;
    case CollectiveKind::kAllToAll:
      traffic = all_to_all_traffic(size.value, ranks);
      break;
    case CollectiveKind::kBroadcast:
      traffic =
          broadcast_traffic(choose_broadcast(size.value, ranks), size.value, ranks, kSegmentBytes);
      break;
    case CollectiveKind::kSendReceive:
      break;
  }
  TransferCost cost;
  cost.wall = Seconds{link.latency.value * traffic.steps};
  if (link.bandwidth.value > 0.0) {
    cost.wall +=
        Seconds{traffic.sent_bytes / link.bandwidth.value * crowding(kind, ranks, size, link)};
  }
  cost.sender_cpu = Seconds{link.send_cpu_s_per_byte * traffic.sent_bytes};
  cost.cpu = Seconds{link.receive_cpu_s_per_byte * traffic.sent_bytes};
  if (kind != CollectiveKind::kSendReceive) {
    cost.cpu += cost.sender_cpu;
    cost.sender_cpu = Seconds{};
  }
  cost.wall = std::max(cost.wall, cost.cpu + cost.sender_cpu);
  return cost;
}

TransferCost CostModel::from_benchmark(CollectiveKind kind, int ranks, Bytes size,
                                       Span span) const {
  TransferCost cost = without_samples(kind, ranks, size, span);
  const auto table = transfers_.find({kind, ranks});
  if (table != transfers_.end() && span == Span::kOneNode) {
    cost.wall = read(table->second.wall, size);
    cost.source = table->second.wall.at(bytes_coordinate(size))->exact ? CostSource::kMeasured
                                                                       : CostSource::kInterpolated;
    cost.cpu = std::min(read(table->second.cpu, size), cost.wall);
    cost.sender_cpu = std::min(read(table->second.sender_cpu, size), cost.wall);
    if (kind != CollectiveKind::kSendReceive) cost = with_own_cores(cost, ranks);
  }
  return cost;
}

/// `ranks` at once on one node with cores for fewer: a core share of t on a core of one's own took
/// t x sharing_factor of the wall time, and the measured share may contain others' turns. What
/// results takes the measured wall time again when only these ranks share the cores.
TransferCost CostModel::with_own_cores(TransferCost shared, int ranks) const {
  const double crowd = sharing_factor(ranks, cluster_);
  if (crowd <= 1.0) return shared;
  const Seconds cpu = std::min(shared.cpu, shared.wall / crowd);
  return {shared.wall - cpu * (crowd - 1.0), cpu, shared.sender_cpu, shared.source};
}

double CostModel::in_situ_correction(CollectiveKind kind, int ranks, Bytes size) const {
  const auto found = corrections_.find({kind, ranks});
  if (found == corrections_.end()) return 1.0;
  const CorrectionTable& table = found->second;
  const Bytes seen = std::clamp(size, table.least, table.most);
  return std::exp(table.log_ratio.at(bytes_coordinate(seen))->log_y);
}

TransferCost CostModel::collective(CollectiveKind kind, int ranks, Bytes size, Span span,
                                   Waits waits) const {
  if (ranks < 2 || size.value == 0) return {};
  const TransferCost cost = from_benchmark(kind, ranks, size, span);
  double scale = span == Span::kOneNode ? in_situ_correction(kind, ranks, size) : 1.0;
  if (waits == Waits::kLater) scale *= factor("overlapped/" + std::string(name_of(kind)));
  return {cost.wall * scale, cost.cpu * scale, cost.sender_cpu * scale, cost.source};
}

TransferCost CostModel::point_to_point(Bytes size, Span span) const {
  return collective(CollectiveKind::kSendReceive, 2, size, span);
}

Seconds CostModel::operation_overhead() const { return cluster_.device.operation_overhead; }
Seconds CostModel::instruction_overhead() const {
  return cluster_.device.operation_overhead + cluster_.device.instruction_overhead;
}
Seconds CostModel::step_overhead() const { return cluster_.device.step_overhead; }

}  // namespace parplan::sim
