#pragma once

#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/core/cluster.hpp"
#include "sim/core/model.hpp"
#include "sim/core/program.hpp"
#include "sim/node_span.hpp"
#include "sim/sample_table.hpp"

namespace parplan::sim {

/// What a cost rests on.
enum class CostSource : std::uint8_t {
  kMeasured,      ///< this very shape or size was measured
  kInterpolated,  ///< between measured ones
  kRoofline,      ///< peaks of the device, latency and bandwidth of the link only
};

struct OperationCost {
  Seconds time;
  CostSource source = CostSource::kRoofline;
};

/// What runs beside and between an operation.
struct Conditions {
  double busy_ranks = 1;  ///< ranks of a node that compute at the same time, on average
  Bytes working_set;      ///< flat buffers and arena of the rank
};

/// A transfer or collective between ranks that arrive together and have cores of their own.
struct TransferCost {
  Seconds wall;        ///< from start to completion with nothing else running
  Seconds cpu;         ///< meanwhile taken from the core of each rank (of the receiver), <= wall
  Seconds sender_cpu;  ///< point to point: taken from the core of the sender, <= wall
  CostSource source = CostSource::kRoofline;  ///< of `wall`
};

/// Whether the ranks do nothing but wait for a collective, or compute and poll it now and then.
enum class Waits : std::uint8_t { kAtOnce, kLater };

/// Whether it goes through the flat buffers once a step: its cost depends on the working set.
constexpr bool is_of_whole_gradient(OpCode code) {
  return code == OpCode::kAdam || code == OpCode::kGradientNorm;
}

/// Prices operations and transfers from a machine file. Immutable; safe to share between threads.
///
/// Operations: measured samples of the same code, dtype and variant, interpolated by `SampleTable`
/// over log sizes in seconds per flop (matrix products, attention) or per byte (all else); without
/// samples the roofline max(flop / peak, bytes / bandwidth) (Williams et al., CACM 52(4), 2009).
/// Between two numbers of busy ranks that were measured the time is a weighted mean.
/// Transfers: samples of the benchmark of the same kind, interpolated over log bytes per group
/// size; without them latency x steps + bytes / bandwidth with the steps and bytes of
/// `sim/core/collective_algorithm.hpp`. Samples from training steps (`in_situ`) give a correction
/// to that, interpolated likewise and constant beyond the sizes that were seen. Samples of more
/// ranks than a node has cores for were measured while these shared the cores; what their core
/// share would take on cores of their own is derived from that, see `with_own_cores`.
/// Calibration factors multiply.
class CostModel {
 public:
  explicit CostModel(const Cluster& cluster);

  /// Throws InputError if the model has matrix products or attention in a dtype that the machine
  /// file has neither samples nor a peak for: they would seem to be free.
  void require_products(const Model& model, DType dtype) const;

  /// `microbatch`: whether outputs marked kOverwriteFirst are added to (all but 0).
  OperationCost operation(const Operation& operation, const OpBody& body, DType dtype,
                          int microbatch, Conditions conditions = {}) const;
  /// Adam over `count` elements.
  OperationCost adam(std::int64_t count, DType dtype, Conditions conditions = {}) const;
  /// The same from the bare description.
  OperationCost price(OpCode code, const OpShape& shape, OpVariant variant, DType dtype,
                      Conditions conditions) const;
  /// What `price` would say, calibration factors aside, had this very shape not been measured.
  Seconds price_as_unmeasured(OpCode code, const OpShape& shape, OpVariant variant, DType dtype,
                              Conditions conditions) const;
  TransferCost point_to_point(Bytes size, Span span) const;
  /// `size` as nccl-tests count it: the buffer of one rank, for all-gather the gathered one.
  TransferCost collective(CollectiveKind kind, int ranks, Bytes size, Span span,
                          Waits waits = Waits::kAtOnce) const;
  Seconds operation_overhead() const;
  Seconds instruction_overhead() const;
  Seconds step_overhead() const;

  const Cluster& cluster() const { return cluster_; }

 private:
  struct Work {
    SampleTable::Coordinates x{};
    double units = 1.0;  ///< flop or bytes
  };
  /// Measured with as many busy ranks or fewer, and with more; how much each counts. Without
  /// samples neither does.
  struct Share {
    const SampleTable* table = nullptr;
    double weight = 0.0;
  };
  using Shares = std::array<Share, 2>;
  static Work work_of(OpCode code, const OpShape& shape, DType dtype, bool causal,
                      Bytes working_set);
  Shares tables_for(OpCode code, DType dtype, OpVariant variant, double busy_ranks) const;
  OperationCost roofline(OpCode code, const OpShape& shape, DType dtype, bool causal) const;
  double factor(const std::string& key) const;
  TransferCost without_samples(CollectiveKind kind, int ranks, Bytes size, Span span) const;
  TransferCost from_benchmark(CollectiveKind kind, int ranks, Bytes size, Span span) const;
  TransferCost with_own_cores(TransferCost shared, int ranks) const;
  double in_situ_correction(CollectiveKind kind, int ranks, Bytes size) const;

  struct TransferTable {
    SampleTable wall;
    SampleTable cpu;
    SampleTable sender_cpu;
  };
  struct CorrectionTable {
    SampleTable log_ratio;
    Bytes least{std::numeric_limits<std::int64_t>::max()};
    Bytes most;
  };
  using OperationKey = std::tuple<OpCode, DType, OpVariant, int>;

  Cluster cluster_;
  std::map<OperationKey, SampleTable> operations_;
  std::map<std::pair<CollectiveKind, int>, TransferTable> transfers_;
  std::map<std::pair<CollectiveKind, int>, CorrectionTable> corrections_;
  std::map<std::string, double> factors_;
};

/// The variant of an operation in a microbatch: outputs marked kOverwriteFirst are added to in all
/// but the first.
OpVariant variant_in_microbatch(const Operation& operation, const OpBody& body, int microbatch);

}  // namespace parplan::sim
