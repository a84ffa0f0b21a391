#include "hw/executor/parameters.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "hw/copy_bytes.hpp"
#include "hw/half.hpp"
#include "hw/page_buffer.hpp"
#include "hw/random.hpp"
#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"

namespace parplan::hw {
namespace {

/// Logical row and column of a shard's first element.
struct ShardOrigin {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

ShardOrigin origin_of(const parplan::ParameterShard& shard, int tensor) {
  switch (shard.split) {
    case Split::kNone:
      return {};
    case Split::kRows:
      return {tensor * shard.local_rows, 0};
    case Split::kColumns:
      return {0, tensor * shard.local_columns};
  }
  return {};
}

Initializer draw_of(const parplan::Initializer& initializer) {
  switch (initializer.distribution) {
    case Distribution::kConstant:
      return {InitKind::kConstant, initializer.mean};
    case Distribution::kNormal:
      return {InitKind::kNormal, initializer.scale, initializer.mean};
    case Distribution::kUniform:
      return {InitKind::kUniform, initializer.scale, initializer.mean};
  }
  throw InternalError("every distribution can be drawn");
}

/// A rank's part of a given logical tensor; padding stays 0.
template <class T>
void cut_shard(const LogicalTensor& whole, const parplan::ParameterShard& shard, ShardOrigin origin,
               T* out) {
  for (std::int64_t r = 0; r < std::min(shard.local_rows, whole.rows - origin.row); ++r) {
    const double* from = whole.values.data() + (origin.row + r) * whole.columns + origin.column;
    std::transform(from, from + shard.local_columns, out + r * shard.local_columns,
                   [](double value) { return static_cast<T>(value); });
  }
}

void check_fits(const LogicalTensor& tensor, const Parameter& parameter) {
  if (tensor.name == parameter.name && tensor.rows == parameter.rows &&
      tensor.columns == parameter.columns &&
      static_cast<std::int64_t>(tensor.values.size()) == parameter.elements()) {
    return;
  }
  const auto shape = [](const auto& t) {
    return "'" + t.name + "' [" + std::to_string(t.rows) + ", " + std::to_string(t.columns) + "]";
  };
  throw InputError("the initial value " + shape(tensor) + " with " +
                   std::to_string(tensor.values.size()) + " elements is given for parameter " +
                   shape(parameter));
}

/// The shard's copy in a 16-bit precision; nothing in others.
void round_parameters(const float* exact, const parplan::ParameterShard& shard, DType precision,
                      const DeviceRange& parameters, Device& device) {
  if (!is_half(precision)) return;
  const std::int64_t count = shard.local_rows * shard.local_columns;
  const std::int64_t element = bytes_of(precision);
  std::byte* const place = parameters.data() + shard.flat_offset * element;
  if (device.host_accessible()) return narrow(place, precision, exact, count);
  const PageBuffer staging(static_cast<std::size_t>(count * element));
  narrow(staging.data(), precision, exact, count);
  device.copy_from_host(place, staging.data(), Bytes{count * element});
}

template <class T>
void initialise(const Plan& plan, const RankClass& rank_class, MeshCoordinates where,
                const std::vector<LogicalTensor>* given, const RankMemory& memory, Device& device) {
  for (const parplan::ParameterShard& shard : rank_class.parameters) {
    const Parameter& parameter = plan.model.parameter(shard.parameter);
    const ShardOrigin origin = origin_of(shard, where.tensor);
    const auto count = static_cast<std::size_t>(shard.local_rows * shard.local_columns);
    std::byte* const place =
        memory.exact_parameters().data() + shard.flat_offset * static_cast<std::int64_t>(sizeof(T));
    // Where the host can write, in place: a copy of the largest tensor would otherwise stay with
    // the allocator for the whole run. Elsewhere pages of its own, which go back at once.
    const PageBuffer staging(device.host_accessible() ? 0 : count * sizeof(T));
    T* const values = reinterpret_cast<T*>(device.host_accessible() ? place : staging.data());
    if (given != nullptr) {
      check_fits(given->at(shard.parameter.index), parameter);
      cut_shard(given->at(shard.parameter.index), shard, origin, values);
    } else {
      fill_parameter(values,
                     {parameter.rows, parameter.columns, origin.row, origin.column,
                      shard.local_rows, shard.local_columns},
                     draw_of(parameter.initializer),
                     tensor_key(plan.workload.seed, parameter.name));
    }
    if (!staging.empty()) {
      device.copy_from_host(place, staging.data(),
                            Bytes{static_cast<std::int64_t>(staging.size())});
    }
    if constexpr (std::is_same_v<T, float>) {
      round_parameters(values, shard, plan.workload.precision, memory.parameters, device);
    }
  }
}

/// Puts shards into logical tensors and compares where they overlap.
class Assembly {
 public:
  Assembly(const Plan& plan, const Program& program) : plan_(plan), program_(program) {
    for (const Parameter& parameter : plan.model.parameters) {
      const auto count = static_cast<std::size_t>(parameter.elements());
      result_.push_back(
          {parameter.name, parameter.rows, parameter.columns, std::vector<double>(count)});
      first_rank_.emplace_back(count, kNobody);
    }
  }

  void add_rank(int rank, const std::vector<double>& flat) {
    const MeshCoordinates where = coordinates_of(rank, program_.layout);
    const RankClass& rank_class = program_.classes[static_cast<std::size_t>(where.position)];
    ensure(static_cast<std::int64_t>(flat.size()) == rank_class.flat_elements,
           "a rank sends its whole flat buffer");
    for (const parplan::ParameterShard& shard : rank_class.parameters) {
      add_shard(rank, shard, origin_of(shard, where.tensor), flat.data() + shard.flat_offset);
    }
  }

  std::vector<LogicalTensor> take() { return std::move(result_); }

 private:
  static constexpr int kNobody = -1;

  void add_shard(int rank, const parplan::ParameterShard& shard, ShardOrigin origin,
                 const double* values) {
    LogicalTensor& whole = result_[shard.parameter.index];
    std::vector<int>& first = first_rank_[shard.parameter.index];
    for (std::int64_t r = 0; r < std::min(shard.local_rows, whole.rows - origin.row); ++r) {
      for (std::int64_t c = 0; c < shard.local_columns; ++c) {
        const auto at =
            static_cast<std::size_t>((origin.row + r) * whole.columns + origin.column + c);
        const double value = values[r * shard.local_columns + c];
        if (first[at] == kNobody) {
          first[at] = rank;
          whole.values[at] = value;
        } else if (std::bit_cast<std::uint64_t>(whole.values[at]) !=
                   std::bit_cast<std::uint64_t>(value)) {
          throw InternalError(
              "ranks " + std::to_string(first[at]) + " and " + std::to_string(rank) +
              " hold different values of element " + std::to_string(at) + " of '" + whole.name +
              "': " + shortest_text(whole.values[at]) + " and " + shortest_text(value));
        }
      }
    }
  }

  const Plan& plan_;
  const Program& program_;
  std::vector<LogicalTensor> result_;
  std::vector<std::vector<int>> first_rank_;
};

}  // namespace

void initialise_parameters(const Plan& plan, const RankClass& rank_class, MeshCoordinates where,
                           const std::vector<LogicalTensor>* given, const RankMemory& memory,
                           Device& device) {
  if (given != nullptr && given->size() != plan.model.parameters.size()) {
    throw InputError(std::to_string(given->size()) + " initial values are given for the " +
                     std::to_string(plan.model.parameters.size()) + " parameters of model '" +
                     plan.model.name + "'");
  }
  if (plan.workload.precision == DType::kFloat64) {
    initialise<double>(plan, rank_class, where, given, memory, device);
  } else {
    initialise<float>(plan, rank_class, where, given, memory, device);
  }
}

std::vector<double> copy_flat(const DeviceRange& flat, DType type, Device& device) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(flat.size().value));
  device.synchronize();
  device.copy_to_host(bytes.data(), flat.data(), flat.size());
  if (type == DType::kFloat64) {
    const auto* values = reinterpret_cast<const double*>(bytes.data());
    return {values, values + bytes.size() / sizeof(double)};
  }
  const auto* values = reinterpret_cast<const float*>(bytes.data());
  return {values, values + bytes.size() / sizeof(float)};
}

std::vector<LogicalTensor> collect_tensors(World& world, const Plan& plan, const Program& program,
                                           const std::vector<double>& flat) {
  const std::vector<std::string> gathered =
      world.gather({reinterpret_cast<const char*>(flat.data()), flat.size() * sizeof(double)});
  if (world.rank() != 0) return {};
  Assembly assembly(plan, program);
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    std::vector<double> values(gathered[rank].size() / sizeof(double));
    copy_bytes(values.data(), gathered[rank].data(), gathered[rank].size());
    assembly.add_rank(static_cast<int>(rank), values);
  }
  return assembly.take();
}

}  // namespace parplan::hw
