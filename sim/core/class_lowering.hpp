#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/core/model.hpp"
#include "sim/core/program.hpp"
#include "sim/core/sharding.hpp"
#include "sim/core/workload.hpp"

namespace parplan {

/// A value that crosses positions: made in one chunk, used at another position.
struct ValueTransfer {
  ValueId value;
  int from = 0;         ///< position that makes it
  int to = 0;           ///< position that uses it
  int from_chunk = 0;   ///< chunk that makes it
  int first_chunk = 0;  ///< first chunk at `to` that uses it: forward transfer arrives before it
};

/// What all classes share while a program is lowered.
struct LoweringContext {
  const Model& model;
  const Workload& workload;
  const Layout& layout;
  const TensorSharding& sharding;
  std::int64_t microbatch_samples = 0;
  std::vector<Chunk> chunks{};
  std::vector<LayerId> op_layers{};
  std::vector<std::optional<OpId>> producers{};
  std::vector<int> op_chunks{};        ///< chunk of every op
  std::vector<bool> needs_gradient{};  ///< per value: some parameter lies upstream
  std::vector<ValueTransfer> transfers{};
};

/// A point of a class's work on one microbatch: forward bodies of its chunks in order, then
/// backward bodies in reverse.
struct WorkPoint {
  int body = -1;
  int operation = -1;
  friend auto operator<=>(const WorkPoint&, const WorkPoint&) = default;
};

/// The bodies of one rank class, with what the instruction list needs to know of them.
struct LoweredClass {
  RankClass rank_class;
  std::map<std::pair<int, BodyKind>, int> body_of;     ///< (chunk, kind) -> index in bodies
  std::vector<std::optional<TensorId>> value_tensors;  ///< per value
  std::map<std::pair<std::uint32_t, int>, TensorId> received_gradients;  ///< (value, from position)
  std::map<std::uint32_t, TensorId> sent_gradients;      ///< value -> finished gradient
  std::vector<std::optional<WorkPoint>> last_use;        ///< per tensor: last operation using it
  std::vector<std::optional<WorkPoint>> gradient_ready;  ///< per ParameterShard
};

/// Lowers all chunks of `position` into bodies: forward, and backward in reverse with gradients
/// summed where values have several users. Allocations and frees are set; parameters have no flat
/// offsets yet.
LoweredClass lower_class(const LoweringContext& context, int position);

}  // namespace parplan
