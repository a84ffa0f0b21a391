#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/core/cluster.hpp"
#include "sim/core/program.hpp"
#include "traces/calibrate.hpp"

namespace parplan::traces {

/// How long transfers and collectives took inside training steps, gathered from any number of
/// measured traces, and what follows for a machine file.
///
/// - Collectives for which all ranks stop (of tensor parallelism; of gradients when they are not
///   reduced beside backward): from the arrival of the last rank to the end on the last rank, the
///   mean. They become `in_situ` samples. Buckets that are reduced together
///   count as so many of their mean size.
/// - Transfers between positions: from the time both sides have come to it to completion, the
/// median
///   over those whose receiver was waiting. One that computes only looks now and then: where there
///   are no others, the lower quartile. Also `in_situ`.
/// - Gradients reduced beside backward: each from the arrival of the last rank to the end on the
///   last one. Buckets queue behind each other and go on only when computing ranks look, so that
///   single ones say little. All of a step together need no longer than the time in which some of
///   them is under way, and at least the part of it in which no rank computes: the modelled time,
///   moved into these bounds where it lies outside. The median of the factors that takes, over
///   steps, becomes "overlapped/all_reduce".
class TransferEvidence {
 public:
  /// `machine` says which ranks share a node; it must outlive the object.
  explicit TransferEvidence(const Cluster& machine) : machine_(machine) {}

  /// `program`: the file's plan, lowered.
  void add(const TraceFile& file, const Program& program);

  /// Adds or replaces samples of `result` and appends the factor to `summary.factors`.
  void refit(Cluster& result, CalibrationSummary& summary) const;

  std::int64_t events() const { return events_; }

 private:
  using Size = std::tuple<CollectiveKind, int, Bytes>;  ///< kind, ranks, payload
  /// A step's reductions of one group beside backward.
  struct Overlapped {
    int ranks = 2;
    bool one_node = true;
    std::vector<Bytes> buckets;
    Seconds under_way;  ///< while at least one is
    Seconds exposed;    ///< of it, while no rank of the group computes
  };

  void add_tensor_collectives(const TraceFile& file, const Layout& layout);
  void add_gradients_after_backward(const TraceFile& file, const Layout& layout);
  void add_gradients_beside_backward(const TraceFile& file, const Layout& layout);
  void add_point_to_point(const TraceFile& file, const Layout& layout);
  void note(const Size& size, double seconds, std::int64_t events);

  const Cluster& machine_;
  std::map<Size, std::vector<double>> durations_;
  std::map<Size, std::vector<double>> noticed_late_;  ///< upper bounds of transfer times
  std::vector<Overlapped> overlapped_;
  std::int64_t events_ = 0;
};

}  // namespace parplan::traces
