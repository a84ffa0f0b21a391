#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/core/offset_allocator.hpp"
#include "sim/core/program.hpp"
#include "sim/core/trace.hpp"

namespace parplan {

inline constexpr std::size_t kTensorKinds = static_cast<std::size_t>(TensorKind::kWorkspace) + 1;

/// Bytes of live tensors of one rank, by kind; tensor sizes as they are, without the rounding of
/// the arena.
struct MemoryByKind {
  std::array<std::int64_t, kTensorKinds> bytes{};

  Bytes of(TensorKind kind) const { return Bytes{bytes[static_cast<std::size_t>(kind)]}; }
  Bytes total() const;
  bool operator==(const MemoryByKind&) const = default;
};

/// The kinds that a trace tells apart; rank, step and time are left to the caller.
MemorySample sample_of(const MemoryByKind& live);

/// Walks through the instruction list of a rank class in list order and keeps the place of every
/// live tensor: what the executor does, without doing it. Allocation follows list order, never
/// time, so every rank of the class and the simulator see the same places.
///
/// - Parameters, gradients and the optimizer's state lie in flat buffers outside the arena and are
/// always live.
/// - Everything else has one instance per microbatch, in an arena served by OffsetAllocator.
/// - An operation's workspace is live while it runs, unless its `allocates` lists it: then its
///   `frees` do, too.
class MemoryCursor {
 public:
  /// `rank_class` must outlive the cursor.
  MemoryCursor(const RankClass& rank_class, DType precision);

  /// What an instruction does before it starts: frees_before, then allocates.
  void begin(const Instruction& instruction);
  /// Before and after an operation of a kRun instruction.
  void begin(const Operation& operation, std::int32_t microbatch);
  void end(const Operation& operation, std::int32_t microbatch);

  /// Whether the tensor lives in a flat buffer.
  bool is_flat(TensorId tensor) const;
  /// Place in the arena of a live instance; InternalError naming it when it is not live.
  std::int64_t offset(TensorInstance instance) const;

  const MemoryByKind& live() const { return live_; }
  /// Live instances outside the flat buffers.
  std::size_t live_instances() const { return places_.size(); }
  Bytes arena() const { return allocator_.extent(); }

 private:
  void allocate(TensorInstance instance);
  void release(TensorInstance instance);

  const RankClass& rank_class_;
  OffsetAllocator allocator_;
  std::unordered_map<std::uint64_t, std::int64_t> places_;
  MemoryByKind live_;
};

/// Memory while something runs: after its allocations, before its frees.
struct MemoryPoint {
  std::int32_t instruction = 0;
  std::int32_t operation = -1;  ///< index into the body; -1: the instruction as a whole
  MemoryByKind live;
};

struct MemoryReplay {
  Bytes flat;         ///< parameters, gradients and the optimizer's state
  Bytes arena;        ///< address range that everything else needs
  MemoryByKind peak;  ///< at the first moment at which the total is largest
  std::size_t peak_point = 0;
  /// In list order: one point per instruction that is not kRun, one per operation of a kRun.
  std::vector<MemoryPoint> points;

  /// What a rank sets aside.
  Bytes reserved() const { return flat + arena; }
  /// What passes through the caches in a step.
  Bytes working_set() const { return reserved(); }
};

/// One training step of a rank class. InternalError when the list uses a tensor that is not live,
/// allocates a live one, or leaves one behind: no lowered program does.
MemoryReplay replay_memory(const RankClass& rank_class, DType precision);

}  // namespace parplan
