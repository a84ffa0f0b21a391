#pragma once

#include "sim/core/model.hpp"
#include "sim/core/program.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// What x86-64 and ARM map with one entry of the TLB where the kernel grants it.
inline constexpr Bytes kHugePage{std::int64_t{2} << 20};
/// Buffers from this size on are mapped in huge pages.
inline constexpr Bytes kLeastHugeBuffer{std::int64_t{256} << 10};

/// What a buffer of `size` bytes of the executor's own keeps resident once it has been used: whole
/// huge pages from kLeastHugeBuffer on. With small pages the same work takes up to six times as
/// long after a pause of some milliseconds, when a virtual machine has lost the translations: the
/// waste of less than 2 MiB buys steps that do not depend on how long transfers took.
constexpr Bytes resident_bytes(Bytes size) {
  if (size < kLeastHugeBuffer) return size;
  return Bytes{(size.value + kHugePage.value - 1) / kHugePage.value * kHugePage.value};
}

/// Sizes of the buffers that hold something for every element of a rank's parameters, for the whole
/// run.
struct FlatBuffers {
  Bytes parameters;      ///< in the precision of the run
  Bytes master_weights;  ///< 0 where the parameters themselves are kept in state_type
  Bytes gradients;       ///< state_type
  Bytes moment;          ///< each of the two; state_type
  Bytes optimizer_state() const { return master_weights + moment * 2; }
};
FlatBuffers flat_buffers(std::int64_t elements, DType precision);

/// Where a rank's tensors lie in the one block that it reserves: offsets from its start, each a
/// multiple of 64 bytes.
struct RankBlock {
  Bytes parameters;
  Bytes master_weights;
  Bytes gradients;
  Bytes first_moment;
  Bytes second_moment;
  Bytes arena;
  Bytes size;
};
RankBlock rank_block(const FlatBuffers& flat, Bytes arena);

/// What the block of a rank of this class keeps resident.
Bytes resident_block_bytes(const RankClass& rank_class, DType precision, Bytes arena);

/// Floats that an operand of so many elements takes when it is widened: whole cache lines.
constexpr std::int64_t widened_place(std::int64_t elements) { return (elements + 15) / 16 * 16; }

/// What the CPU keeps to compute in a 16-bit precision: the operands of one operation in float32,
/// at most; 0 in other precisions.
Bytes widening_bytes(const RankClass& rank_class);

/// A synthetic set of real features is drawn once, before the first step, and kept in memory up to
/// this size; beyond it the samples are drawn at every step.
inline constexpr Bytes kResidentInputLimit{std::int64_t{1} << 30};

/// What one input value of a synthetic data set takes when it is kept: 0 for token ids and classes,
/// which are drawn at every step, for values beyond kResidentInputLimit and for token files.
Bytes kept_input_bytes(const Value& value, const Workload& workload);

/// What the inputs that a rank of this class loads keep resident. Part of a rank's memory beside
/// its arena; not counted among the tensors.
Bytes resident_input_bytes(const RankClass& rank_class, const Model& model,
                           const Workload& workload);

}  // namespace parplan
