#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hw/device.hpp"
#include "hw/executor/rank_memory.hpp"
#include "hw/world.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/program.hpp"

namespace parplan::hw {

/// A whole logical parameter, or its gradient.
struct LogicalTensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;  ///< [rows, columns], without padding
};

/// Writes the initial values of a rank's parameter shards into its flat buffer: its part of `given`
/// (one tensor per parameter, in model order) or, where that is null, drawn values: element e
/// (row-major in the logical parameter) is a pure function of (seed, parameter name, e), see
/// Initializer and keyed_normal. Rows behind the logical ones, and the gaps of the flat buffer,
/// are 0. A 16-bit precision has them exact in the master weights and rounded in the parameters.
/// InputError where a given tensor does not fit its parameter.
void initialise_parameters(const Plan& plan, const RankClass& rank_class, MeshCoordinates where,
                           const std::vector<LogicalTensor>* given, const RankMemory& memory,
                           Device& device);

/// One rank's flat buffer of float32 or float64, copied to the host as doubles.
std::vector<double> copy_flat(const DeviceRange& flat, DType type, Device& device);

/// Collective. Rank 0 gets every parameter of the model in model order, put together from the flat
/// buffers (`copy_flat`) of all ranks; the others get nothing. Copies that ranks hold of the same
/// element must be equal to the bit: InternalError naming the parameter and the ranks otherwise.
std::vector<LogicalTensor> collect_tensors(World& world, const Plan& plan, const Program& program,
                                           const std::vector<double>& flat);

}  // namespace parplan::hw
