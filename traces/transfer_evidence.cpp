#include "traces/transfer_evidence.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/core/op_code.hpp"
#include "sim/cost_model.hpp"
#include "sim/node_span.hpp"
#include "traces/breakdown.hpp"
#include "traces/intervals.hpp"
#include "traces/statistics.hpp"

namespace parplan::traces {
namespace {

/// Fewer events of one size than this may be an accident.
constexpr std::size_t kLeastEvents = 3;
/// A receiver that has not computed for so long was waiting and saw the end at once.
constexpr Seconds kAttention{2e-6};

/// A collective as its ranks' events show it.
struct Meeting {
  Key key;
  Picoseconds last_start;
  Picoseconds last_end;
  Bytes bytes;
  int ranks = 0;

  void join(const TraceEvent& e) {
    last_start = ranks == 0 ? e.start : std::max(last_start, e.start);
    last_end = ranks == 0 ? e.end : std::max(last_end, e.end);
    key = e.key;
    bytes = e.bytes;
    ++ranks;
  }
};

bool computes(const TraceEvent& e) {
  return e.stream == Stream::kCompute && e.key.phase() != Phase::kStep && !spans_operations(e) &&
         !is_tensor_collective(e);
}

/// Time from the end of the last computation to `moment`, 0 during one; `computing` is joined.
Seconds since_computation(const Intervals& computing, Picoseconds moment) {
  const auto after = std::partition_point(computing.begin(), computing.end(),
                                          [moment](const Interval& i) { return i.begin < moment; });
  if (after == computing.begin()) return Seconds{std::numeric_limits<double>::infinity()};
  return std::max(Seconds{}, to_seconds(moment - std::prev(after)->end));
}

bool reduces_gradients(const TraceEvent& e) {
  return e.stream != Stream::kCompute && e.key.phase() == Phase::kReduceGradients;
}

}  // namespace

void TransferEvidence::note(const Size& size, double seconds, std::int64_t events) {
  if (seconds <= 0.0 || std::get<Bytes>(size).value <= 0) return;
  durations_[size].push_back(seconds);
  events_ += events;
}

void TransferEvidence::add(const TraceFile& file, const Program& program) {
  const Layout& layout = program.layout;
  if (layout.tp > 1 && sim::span_of_tensor_group(layout, machine_) == sim::Span::kOneNode) {
    add_tensor_collectives(file, layout);
  }
  if (layout.dp > 1) {
    if (file.plan.stack.overlap_gradient_reduction) {
      add_gradients_beside_backward(file, layout);
    } else if (sim::span_of_data_group(layout, machine_) == sim::Span::kOneNode) {
      add_gradients_after_backward(file, layout);
    }
  }
  if (layout.pp * layout.mp > 1) add_point_to_point(file, layout);
}

void TransferEvidence::add_tensor_collectives(const TraceFile& file, const Layout& layout) {
  // One operation may come several times in a step; the n-th of one rank meets the n-th of others.
  std::map<std::tuple<std::int32_t, std::int32_t, std::uint64_t>, int> seen;
  std::map<std::tuple<int, int, std::int32_t, std::uint64_t, int>, Meeting> meetings;
  for (const TraceEvent& e : file.trace.events) {
    if (e.stream != Stream::kCompute || !is_tensor_collective(e)) continue;
    const MeshCoordinates where = coordinates_of(e.rank, layout);
    const int occurrence = seen[{e.rank, e.step, e.key.packed}]++;
    meetings[{where.position, where.replica, e.step, e.key.packed, occurrence}].join(e);
  }
  for (const auto& [name, meeting] : meetings) {
    if (meeting.ranks != layout.tp) continue;
    const bool reduces = meeting.key.code() == static_cast<std::uint32_t>(OpCode::kTensorAllReduce);
    const Bytes size{meeting.bytes.value * (reduces ? 1 : layout.tp)};
    note({reduces ? CollectiveKind::kAllReduce : CollectiveKind::kAllGather, layout.tp, size},
         to_seconds(meeting.last_end - meeting.last_start).value, meeting.ranks);
  }
}

void TransferEvidence::add_gradients_after_backward(const TraceFile& file, const Layout& layout) {
  struct Train {
    Meeting whole;
    Bytes bytes;
    int buckets = 0;
  };
  std::map<std::tuple<int, int, std::int32_t>, Train> trains;
  for (const TraceEvent& e : file.trace.events) {
    if (!reduces_gradients(e)) continue;
    const MeshCoordinates where = coordinates_of(e.rank, layout);
    Train& train = trains[{where.position, where.tensor, e.step}];
    train.whole.join(e);
    if (where.replica == 0) {
      train.bytes += e.bytes;
      ++train.buckets;
    }
  }
  for (const auto& [name, train] : trains) {
    if (train.buckets == 0 || train.whole.ranks != train.buckets * layout.dp) continue;
    // Buckets are under way together, so that only their mean is known.
    note({CollectiveKind::kAllReduce, layout.dp, Bytes{train.bytes.value / train.buckets}},
         to_seconds(train.whole.last_end - train.whole.last_start).value / train.buckets,
         train.whole.ranks);
  }
}

void TransferEvidence::add_gradients_beside_backward(const TraceFile& file, const Layout& layout) {
  using Group = std::tuple<int, int, std::int32_t>;  // position, tensor rank, step
  std::map<Group, std::map<std::uint64_t, Meeting>> groups;
  std::map<Group, Intervals> computing;
  for (const TraceEvent& e : file.trace.events) {
    const MeshCoordinates where = coordinates_of(e.rank, layout);
    const Group group{where.position, where.tensor, e.step};
    if (reduces_gradients(e) && e.bytes.value > 0) groups[group][e.key.packed].join(e);
    if (computes(e)) computing[group].push_back({e.start, e.end});
  }
  for (const auto& [group, meetings] : groups) {
    Overlapped step;
    step.ranks = layout.dp;
    step.one_node = sim::span_of_data_group(layout, machine_) == sim::Span::kOneNode;
    Intervals moving;
    bool complete = true;
    for (const auto& [key, meeting] : meetings) {
      complete = complete && meeting.ranks == layout.dp;
      moving.push_back({meeting.last_start, meeting.last_end});
      step.buckets.push_back(meeting.bytes);
    }
    if (!complete) continue;
    moving = joined(std::move(moving));
    step.under_way = length_of(moving);
    step.exposed = step.under_way - common(moving, joined(computing[group]));
    if (step.under_way.value <= 0.0) continue;
    overlapped_.push_back(std::move(step));
    events_ += layout.dp * static_cast<std::int64_t>(meetings.size());
  }
}

void TransferEvidence::add_point_to_point(const TraceFile& file, const Layout& layout) {
  const bool one_node =
      sim::span_of_positions(layout, machine_, 0, layout.positions() - 1) == sim::Span::kOneNode;
  if (!one_node) return;
  struct Message {
    const TraceEvent* send = nullptr;
    const TraceEvent* receive = nullptr;
    int events = 0;
  };
  using Name = std::tuple<bool, std::int32_t, std::uint32_t, std::uint32_t, int, int>;
  std::map<Name, Message> messages;
  std::map<std::int32_t, Intervals> computing;  // by rank
  for (const TraceEvent& e : file.trace.events) {
    if (computes(e)) computing[e.rank].push_back({e.start, e.end});
    const Phase phase = e.key.phase();
    const bool receives = phase == Phase::kReceiveActivation || phase == Phase::kReceiveGradient;
    const bool sends = phase == Phase::kSendActivation || phase == Phase::kSendGradient;
    if (e.stream == Stream::kCompute || !(sends || receives)) continue;
    const bool gradient = phase == Phase::kReceiveGradient || phase == Phase::kSendGradient;
    const MeshCoordinates where = coordinates_of(e.rank, layout);
    Message& message =
        messages[{gradient, e.step, e.key.op(), e.key.microbatch(), where.replica, where.tensor}];
    (sends ? message.send : message.receive) = &e;
    ++message.events;
  }
  for (auto& [rank, intervals] : computing) intervals = joined(std::move(intervals));
  for (const auto& [name, m] : messages) {
    // A value that several positions need has more events, and who met whom is not known.
    if (m.events != 2 || m.send == nullptr || m.receive == nullptr) continue;
    const Size size{CollectiveKind::kSendReceive, 2, m.receive->bytes};
    const Seconds taken = to_seconds(m.receive->end - std::max(m.send->start, m.receive->start));
    const Seconds idle = since_computation(computing[m.receive->rank], m.receive->end);
    if (idle > kAttention) {
      note(size, taken.value, 2);
    } else if (taken.value > 0.0) {
      noticed_late_[size].push_back(taken.value);
    }
  }
}

void TransferEvidence::refit(Cluster& result, CalibrationSummary& summary) const {
  struct Fit {
    const std::vector<double>* taken = nullptr;
    double typical_s = 0.0;
  };
  std::map<Size, Fit> fits;
  for (const auto& [size, taken] : noticed_late_) {
    if (taken.size() >= kLeastEvents) fits[size] = {&taken, quantile(taken, 0.25)};
  }
  for (const auto& [size, taken] : durations_) {
    if (taken.size() < kLeastEvents) continue;
    const bool one_by_one = std::get<CollectiveKind>(size) == CollectiveKind::kSendReceive;
    fits[size] = {&taken, one_by_one ? median_of(taken) : mean_of(taken)};
  }
  for (const auto& [size, fit] : fits) {
    const auto& [kind, ranks, bytes] = size;
    TransferSample sample;
    sample.kind = kind;
    sample.ranks = ranks;
    sample.bytes = bytes;
    sample.in_situ = true;
    sample.median = Seconds{fit.typical_s};
    sample.relative_spread = relative_spread(*fit.taken, fit.typical_s);
    const auto same = std::find_if(
        result.transfers.begin(), result.transfers.end(), [&sample](const TransferSample& t) {
          return t.in_situ &&
                 Size(t.kind, t.ranks, t.bytes) == Size(sample.kind, sample.ranks, sample.bytes);
        });
    if (same != result.transfers.end()) {
      *same = sample;
      ++summary.refitted_transfers;
    } else {
      result.transfers.push_back(sample);
      ++summary.new_transfers;
    }
  }
  if (overlapped_.empty()) return;
  const sim::CostModel costs(result);
  std::vector<double> ratios;
  for (const Overlapped& o : overlapped_) {
    const auto span = o.one_node ? sim::Span::kOneNode : sim::Span::kSeveralNodes;
    Seconds modelled;
    for (const Bytes bucket : o.buckets) {
      modelled += costs.collective(CollectiveKind::kAllReduce, o.ranks, bucket, span).wall;
    }
    if (modelled.value <= 0.0) continue;
    ratios.push_back(std::clamp(1.0, o.exposed / modelled, o.under_way / modelled));
  }
  if (ratios.empty()) return;
  const double factor = median_of(ratios);
  if (factor <= 0.0) return;
  summary.factors.push_back({std::string(kOverlappedAllReduce), factor,
                             relative_spread(ratios, factor),
                             static_cast<std::int64_t>(ratios.size())});
}

}  // namespace parplan::traces
