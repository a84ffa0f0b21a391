#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/dtype.hpp"
#include "sim/core/ids.hpp"
#include "sim/core/key.hpp"
#include "sim/core/layout.hpp"
#include "sim/core/model.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core/units.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// What a tensor is for; memory is reported by kind.
enum class TensorKind : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizerState,      ///< moments and, where there are any, master weights
  kInput,               ///< token ids, features, targets of a microbatch
  kActivation,          ///< produced in forward
  kActivationGradient,  ///< produced in backward
  kCommunication,       ///< receive buffers, gathered shards
  kWorkspace,           ///< scratch of one operation
};
std::string_view name_of(TensorKind kind);

/// How a tensor's rows x columns relate to the logical tensor under tensor parallelism.
enum class Sharding : std::uint8_t { kReplicated, kRows, kColumns };

/// One tensor of a rank class. Activations, their gradients, inputs and buffers exist once per
/// microbatch in flight; parameters, gradients and the optimizer's state live in flat buffers for
/// the whole run.
struct Tensor {
  TensorKind kind = TensorKind::kActivation;
  DType dtype = DType::kFloat32;
  Sharding sharding = Sharding::kReplicated;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::optional<ValueId> value{};          ///< the model value it holds (or the gradient of)
  std::optional<ParameterId> parameter{};  ///< parameter or gradient
  std::int64_t flat_offset = 0;  ///< parameter, gradient: first element in the flat buffer

  std::int64_t elements() const { return rows * columns; }
  Bytes bytes() const { return Bytes{elements() * bytes_of(dtype)}; }
};

/// What an operation does to an output that may already hold a value.
enum class Write : std::uint8_t {
  kOverwrite,
  kAccumulate,
  kOverwriteFirst,  ///< overwrite in the step's first microbatch, accumulate in the others
};
struct Output {
  TensorId tensor;
  Write write = Write::kOverwrite;
};

/// One device operation of a chunk body. Operand order: see OpCode.
struct Operation {
  OpCode code{};
  LayerId layer;
  OpId op;  ///< the model's op, whose attributes (function, dropout, epsilon, ...) apply
  OpShape shape;
  std::vector<TensorId> inputs;
  std::vector<Output> outputs;
  std::vector<TensorId> allocates;  ///< before it runs
  std::vector<TensorId> frees;      ///< after it ran
  std::optional<TensorId> workspace;
  Flop flop;    ///< multiply and add count as two
  Bytes bytes;  ///< least traffic: every operand once; for collectives the payload
};

enum class BodyKind : std::uint8_t { kForward, kBackward };

/// The work of one chunk on one microbatch; shared by all microbatches.
struct Body {
  BodyKind kind = BodyKind::kForward;
  int chunk = 0;
  std::vector<Operation> operations;
};

enum class InstructionKind : std::uint8_t {
  kRun,           ///< operations [op_begin, op_end) of a body for one microbatch
  kSend,          ///< `tensor` to the same replica and tensor rank of position `peer`
  kReceive,       ///< posts the receive of `tensor`; done when a later instruction waits for it
  kReduce,        ///< all-reduce of gradient elements [flat_begin, flat_end) over dp
  kReduceTied,    ///< all-reduce of gradient elements [flat_begin, flat_end) over `group_positions`
  kOptimizer,     ///< Adam on [flat_begin, flat_end)
  kGradientNorm,  ///< this rank's share of the gradient's squared norm, over RankClass::norm_ranges
  kReduceNorm,    ///< all-reduce of that number over all ranks of the replica
};

/// Whether it moves data between ranks, and so goes on beside what follows it.
constexpr bool is_communication(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kSend:
    case InstructionKind::kReceive:
    case InstructionKind::kReduce:
    case InstructionKind::kReduceTied:
    case InstructionKind::kReduceNorm:
      return true;
    case InstructionKind::kRun:
    case InstructionKind::kOptimizer:
    case InstructionKind::kGradientNorm:
      break;
  }
  return false;
}

/// Streams are served in issue order; different streams overlap as dependencies allow.
enum class Stream : std::uint8_t {
  kCompute,
  kPipelineSend,
  kPipelineReceive,
  kDataParallel,
  kTied,
  kNorm
};
inline constexpr int kStreams = static_cast<int>(Stream::kNorm) + 1;
std::string_view name_of(Stream stream);

/// One tensor of one microbatch.
struct TensorInstance {
  TensorId tensor;
  std::int32_t microbatch = 0;
  auto operator<=>(const TensorInstance&) const = default;
};

/// One step of a rank's list. Instructions are issued in list order. Communication starts when
/// issued and runs beside what follows; an instruction starts after all it `waits` for are
/// complete.
struct Instruction {
  Key key;
  InstructionKind kind = InstructionKind::kRun;
  Stream stream = Stream::kCompute;
  std::int32_t microbatch = 0;
  std::int32_t body = -1;       ///< kRun
  std::int32_t op_begin = 0;    ///< kRun
  std::int32_t op_end = 0;      ///< kRun
  std::int32_t peer = -1;       ///< kSend, kReceive: position (stage or device)
  std::int32_t bucket = -1;     ///< kReduce, kOptimizer
  TensorId tensor;              ///< kSend, kReceive
  std::int64_t flat_begin = 0;  ///< kReduce, kReduceTied, kOptimizer: elements
  std::int64_t flat_end = 0;
  std::vector<std::int32_t> group_positions;  ///< kReduceTied
  Bytes bytes;                               ///< payload of communication, traffic of the optimizer
  std::vector<std::uint32_t> waits;          ///< earlier communication of this list, by index
  std::vector<TensorInstance> frees_before;  ///< after the waits, before it starts
  std::vector<TensorId> allocates;           ///< kReceive: its buffer
};

/// A parameter's shard on the ranks of a class. Rows past the logical ones are padding: zero, never
/// trained.
struct ParameterShard {
  ParameterId parameter;
  TensorId weight;
  TensorId gradient;
  Split split = Split::kNone;  ///< what tp really splits here (kNone when tp = 1)
  std::int64_t local_rows = 0;
  std::int64_t local_columns = 0;
  std::int64_t flat_offset = 0;  ///< elements
};

/// Gradient elements [begin, end) that are reduced over dp together.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Gradient elements [begin, end) of the flat buffer. Ranks that hold the same element add equal
/// shares of its square to the norm of the whole gradient.
struct NormRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double share = 1.0;  ///< 1 / ranks of a replica that hold these elements
};

/// The ranks that run the same list: one pipeline stage or model-parallel device.
struct RankClass {
  int position = 0;
  int multiplicity = 1;  ///< dp x tp
  std::vector<Tensor> tensors;
  std::vector<ParameterShard> parameters;
  std::vector<Bucket> buckets;
  std::vector<NormRange> norm_ranges;  ///< where the gradient is clipped or scaled
  std::int64_t flat_elements = 0;      ///< of each of the FlatBuffers
  std::vector<Body> bodies;
  std::vector<Instruction> instructions;  ///< one training step
  bool computes_loss = false;
};

/// A chunk: consecutive layers on one position, run as a unit. Pipeline stages have one each;
/// a model-parallel device may have several.
struct Chunk {
  int position = 0;
  LayerId first;
  std::uint32_t count = 0;
};

/// The key of an operation of `body` for one microbatch, in prediction and measurement alike.
Key operation_key(const Model& model, const Body& body, const Operation& operation,
                  std::int32_t microbatch);

/// One training step of a plan, lowered. Rank r of the mesh has tensor coordinate r % tp, replica
/// (r / tp) % dp and position r / (tp * dp).
struct Program {
  Layout layout;  ///< with stage_layers / layer_devices filled in
  DType precision = DType::kFloat32;
  std::int64_t microbatch_samples = 0;  ///< samples per microbatch and replica
  std::vector<Chunk> chunks;
  std::vector<RankClass> classes;  ///< indexed by position

  int ranks() const { return layout.ranks(); }
};

struct MeshCoordinates {
  int position = 0;
  int replica = 0;
  int tensor = 0;
};
MeshCoordinates coordinates_of(int rank, const Layout& layout);
int rank_of(MeshCoordinates where, const Layout& layout);

}  // namespace parplan
