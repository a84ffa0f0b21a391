#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/dtype.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core/op_variant.hpp"
#include "sim/core/units.hpp"

namespace parplan {

/// One measured point of an operation: what was run, how long it took.
struct OperationSample {
  OpCode code{};
  DType dtype = DType::kFloat32;
  OpShape shape;
  OpVariant variant;
  /// Ranks of the node that computed at the same time, each on cores of its own; they share caches
  /// and memory bandwidth. Times never contain the waiting of ranks that outnumber the cores.
  int busy_ranks = 1;
  /// Flat buffers and arena of the rank that ran it: what passes through the caches between two
  /// uses of the same weight.
  Bytes working_set;
  Seconds median;
  double relative_spread = 0.0;  ///< (p90 - p10) / median over the repetitions
  bool operator==(const OperationSample&) const = default;
};

/// One measured point of a transfer or collective.
struct TransferSample {
  CollectiveKind kind{};
  int ranks = 2;
  Bytes bytes;       ///< payload as nccl-tests count it
  Seconds median;    ///< wall time with nothing else running; of ranks that share cores if `ranks`
                     ///< are more than the node has cores for
  Seconds cpu;       ///< meanwhile taken from a computing rank's core; send_receive: the receiver's
  Seconds peer_cpu;  ///< send_receive: from the sender's core; 0 for collectives
  double relative_spread = 0.0;
  /// Seen inside training steps, where buffers are cold and ranks arrive one after another, instead
  /// of by the benchmark that repeats one transfer. Counted from the arrival of the last rank.
  bool in_situ = false;
  bool operator==(const TransferSample&) const = default;
};

/// Peaks and overheads of one kind of device. The roofline falls back on these where no sample
/// covers a shape.
struct DeviceSpec {
  std::string name;
  Bytes memory;
  int cores = 1;  ///< CPU: hardware threads that one rank may use
  std::map<DType, FlopPerSecond> peak;
  BytesPerSecond memory_bandwidth;
  Seconds operation_overhead;    ///< launch and bookkeeping per operation
  Seconds instruction_overhead;  ///< per chunk-level instruction, beyond operation_overhead
  Seconds step_overhead;         ///< once a step: data loading, bookkeeping
  Bytes process_bytes;           ///< resident memory of a rank before it owns a tensor
  Bytes product_bytes;           ///< code that the library keeps per shape of a float32 product
  Bytes transport_bytes;         ///< the same, in addition, when it has peers
  bool operator==(const DeviceSpec&) const = default;
};

/// A kind of connection between two ranks.
struct LinkSpec {
  std::string name;
  Seconds latency;
  BytesPerSecond bandwidth;
  /// Seconds of a core per byte sent or received: transports that copy take the core that should
  /// compute, so this part can never hide behind computation.
  double send_cpu_s_per_byte = 0.0;
  double receive_cpu_s_per_byte = 0.0;
  /// Both directions share `bandwidth` (a loopback bus); otherwise each direction has it.
  bool half_duplex = false;
  /// One medium for all ranks of a node; otherwise each pair has its own.
  bool shared = false;
  bool operator==(const LinkSpec&) const = default;
};

/// Key of the factor on gradients that are reduced beside backward.
inline constexpr std::string_view kOverlappedAllReduce = "overlapped/all_reduce";

/// Multipliers that calibration puts on the cost model: predicted = factor x uncalibrated.
struct CalibrationFactor {
  std::string key;  ///< an op code's name, or kOverlappedAllReduce; see traces/calibrate.hpp
  double factor = 1.0;
  double relative_spread = 0.0;
  std::int64_t samples = 0;
  bool operator==(const CalibrationFactor&) const = default;
};

struct Provenance {
  std::string date;  ///< ISO 8601
  std::string host;
  std::string versions;  ///< libraries and their versions
  std::string command;
  std::vector<std::string> fitted_from;  ///< traces a calibration used
  bool operator==(const Provenance&) const = default;
};

/// A set of equal nodes of equal devices. Measured machine files carry samples; presets only peaks.
struct Cluster {
  std::string name;
  int nodes = 1;
  int devices_per_node = 1;  ///< ranks that a node is meant to hold
  /// Ranks beyond it share the cores, see sim/core_sharing.hpp. 0: a core for every rank (GPUs).
  int cores_per_node = 0;
  /// How much longer the work of ranks that outnumber the cores takes than fair turns say, >= 1:
  /// waiting ranks keep looking, the scheduler leaves busy ones on one core while another only has
  /// waiting ones, caches change hands.
  double core_sharing_slowdown = 1.0;
  DeviceSpec device;
  LinkSpec intra_node;
  LinkSpec inter_node;
  std::vector<OperationSample> operations;
  std::vector<TransferSample> transfers;
  std::vector<CalibrationFactor> calibration;
  Provenance provenance;
  bool measured = false;

  int devices() const { return nodes * devices_per_node; }
  bool operator==(const Cluster&) const = default;
};

}  // namespace parplan
