#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "hw/cpu/kernel_context.hpp"
#include "hw/elements.hpp"
#include "sim/core/dtype.hpp"
#include "sim/core/model.hpp"
#include "sim/core/op_code.hpp"
#include "sim/core/program.hpp"
#include "sim/core/units.hpp"
#include "sim/core/workload.hpp"

namespace parplan::hw {

/// Where the local operands of an operation lie in the logical ones. Offsets are what dropout and
/// vocabulary-parallel codes need; 0 where nothing is split.
struct LogicalPlace {
  /// Logical row of local row 0: the microbatch's first sample within the global batch, times the
  /// rows of a sample; for attention the sample itself.
  std::int64_t row_offset = 0;
  /// Logical column of local column 0; attention: first head; embedding and cross-entropy: first
  /// row of the vocabulary.
  std::int64_t column_offset = 0;
  int shard = 0;   ///< tensor coordinate
  int shards = 1;  ///< tensor ranks
};

/// What a rank knows of its gradient as a whole; device memory, equal on all ranks.
struct GradientState {
  double squared_norm = 0.0;  ///< of loss_scale x the gradient of this step
  double loss_scale = 1.0;
  std::int64_t updates = 0;      ///< steps that moved parameters
  std::int64_t clean_steps = 0;  ///< since the loss scale changed last
};

/// One operation of a Program with its operands in place. Operand order: see OpCode. Collectives
/// and kLoadInput are no device's business, kAdam and kGradientNorm have calls
/// of their own.
struct KernelCall {
  OpCode code{};
  DType dtype = DType::kFloat32;  ///< precision of the run; operands name their own types
  const OpBody* body = nullptr;   ///< attributes of the model's op
  OpShape shape;
  std::array<ConstElements, 6> inputs{};  ///< null where optional and absent
  std::array<Elements, 3> outputs{};
  std::array<bool, 3> accumulate{};  ///< per output: add to what it holds
  std::byte* workspace = nullptr;    ///< workspace_bytes(code, shape, dtype) bytes
  LogicalPlace place;
  std::uint64_t dropout_key = 0;  ///< of this op in this step
  /// Factor of the loss and of its gradient: 1 / elements of the mean over the global batch.
  double scale = 1.0;
  double* loss = nullptr;  ///< loss codes add theirs; host memory
  /// The gradient of the loss is multiplied by its loss_scale, too; null: by nothing.
  const GradientState* gradient = nullptr;
};

/// One update of a range of the flat buffers.
struct AdamCall {
  DType dtype = DType::kFloat32;  ///< state_type of the run: of all but `rounded`
  std::byte* parameters =
      nullptr;       ///< what the optimizer moves: master weights where there are any
  Elements rounded;  ///< then their copies in a 16-bit type
  const std::byte* gradients = nullptr;
  std::byte* first_moment = nullptr;
  std::byte* second_moment = nullptr;
  std::int64_t count = 0;
  const Optimizer* optimizer = nullptr;
  std::int64_t step = 1;  ///< 1 for the first
  /// Where gradients are clipped or the loss is scaled: they are divided by the loss scale and
  /// clipped. Null otherwise.
  const GradientState* gradient = nullptr;
  /// The loss is scaled: gradients that are not finite move nothing, and the step number of Adam's
  /// bias corrections counts updates only.
  bool scales_loss = false;
};

/// One rank's share of the squared norm of the gradient.
struct NormCall {
  DType dtype = DType::kFloat32;         ///< state_type of the run
  const std::byte* gradients = nullptr;  ///< the flat buffer
  std::span<const NormRange> ranges;     ///< host memory
  double* squared_norm = nullptr;        ///< becomes the sum over ranges of share * g^2
};

/// The end of a step that scales its loss: counts it, and sets the scale of the next.
struct LossScaleCall {
  GradientState* gradient = nullptr;
  const LossScaling* scaling = nullptr;
};

/// What computes: memory and kernels of one rank. Used by that rank's thread only. Pointers are
/// device memory unless said otherwise.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;
  virtual bool supports(OpCode code, DType dtype) const = 0;
  /// Whether the host may read and write device memory itself.
  virtual bool host_accessible() const = 0;

  /// Address range of `size` bytes, zero at first, aligned to at least 64 bytes; physical memory
  /// may come with the first use. HwError when there is not enough.
  virtual std::byte* reserve(Bytes size) = 0;
  virtual void release(std::byte* memory, Bytes size) noexcept = 0;

  /// Starts the operation; its result is there for later calls of this device, and for the host
  /// after `synchronize`. The poll is called while it computes, as KernelContext says.
  virtual void run(const KernelCall& call, const KernelContext& context) = 0;
  virtual void run(const AdamCall& call, const KernelContext& context) = 0;
  virtual void run(const NormCall& call, const KernelContext& context) = 0;
  virtual void run(const LossScaleCall& call) = 0;
  virtual void copy_from_host(std::byte* to, const std::byte* host, Bytes size) = 0;
  virtual void copy_to_host(std::byte* host, const std::byte* from, Bytes size) = 0;
  virtual void synchronize() = 0;
};

/// The CPU: all precisions; 16-bit ones are computed in float32 and every result is rounded once.
/// `threads` >= 1 threads for long kernels (one number for the
/// process).
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace parplan::hw
