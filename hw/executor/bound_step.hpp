#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hw/communicator.hpp"
#include "hw/executor/rank_groups.hpp"
#include "hw/executor/rank_memory.hpp"
#include "sim/core/memory_replay.hpp"
#include "sim/core/plan.hpp"

namespace parplan::hw {

/// One operation for one microbatch with everything resolved: running it is a switch and a call.
struct BoundOperation {
  enum class Kind : std::uint8_t { kKernel, kLoad, kAllReduce, kAllGather };
  Kind kind = Kind::kKernel;
  /// Communication may be outstanding while it runs, by list order: it polls. A property of the
  /// program, not of the moment, since polling changes how large products are cut and so their
  /// rounding.
  bool polls = false;
  bool drops = false;              ///< has dropout: its key changes with the step
  KernelCall call;                 ///< kKernel
  std::uint64_t dropout_name = 0;  ///< hash of the name that keys its dropout
  ValueId value;                   ///< kLoad
  std::int64_t first_sample = 0;   ///< kLoad: place of the microbatch in the global batch
  std::byte* target = nullptr;     ///< kLoad
  Bytes bytes;                     ///< kLoad
  ConstElements part;              ///< kAllGather: this rank's
  Elements whole;                  ///< kAllReduce, kAllGather
  std::uint64_t comm_key = 0;
  std::int32_t comm_slot = -1;  ///< index of its communication within the step
  Communicator* group = nullptr;
  std::int32_t lifetime_begin = 0;  ///< BoundStep::lifetimes: [begin, middle) before it runs,
  std::int32_t lifetime_middle = 0;
  std::int32_t lifetime_end = 0;  ///< [middle, end) after
};

/// One instruction with everything resolved.
struct BoundInstruction {
  InstructionKind kind = InstructionKind::kRun;
  bool polls = false;         ///< kOptimizer: as BoundOperation::polls
  std::int32_t op_begin = 0;  ///< kRun: range of BoundStep::operations
  std::int32_t op_end = 0;
  std::int32_t wait_begin = 0;  ///< range of BoundStep::waits
  std::int32_t wait_end = 0;
  Communicator* group = nullptr;    ///< communication
  Elements data;                    ///< communication
  int peer = -1;                    ///< kSend, kReceive
  int tag = 0;                      ///< kSend, kReceive
  std::uint64_t comm_key = 0;       ///< the same number on all ranks that take part
  std::int32_t comm_slot = -1;      ///< index of its communication within the step
  AdamCall adam;                    ///< kOptimizer
  NormCall norm;                    ///< kGradientNorm
  std::int32_t lifetime_begin = 0;  ///< BoundStep::lifetimes, before it starts
  std::int32_t lifetime_end = 0;
};

/// Arena memory that becomes usable or unusable; only kept where freed memory is poisoned.
struct Lifetime {
  std::byte* memory = nullptr;
  Bytes size;
  bool begins = true;
};

/// One training step of one rank, bound to its memory and groups.
struct BoundStep {
  std::vector<BoundOperation> operations;  ///< in the order in which they run
  std::vector<BoundInstruction> instructions;
  std::vector<std::uint32_t> waits;  ///< instruction indexes
  std::vector<Lifetime> lifetimes;
  std::int32_t comm_slots = 0;
  std::optional<LossScaleCall> loss_scale;  ///< after the last instruction
};

/// What a rank's step is bound to. All of it outlives the BoundStep.
struct Binding {
  const Plan& plan;
  const Program& program;
  MeshCoordinates where;
  const RankMemory& memory;
  RankGroups& groups;
  double* loss = nullptr;
  GradientState* gradient = nullptr;  ///< device memory
};

/// Resolves the instruction list of the rank's class. InternalError where the program breaks a
/// promise (see MemoryCursor), HwError where the device lacks a kernel.
BoundStep bind_step(const Binding& binding, const Device& device);

}  // namespace parplan::hw
