#include "hw/random.hpp"

#include <algorithm>

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

double draw(const Initializer& init, std::uint64_t key, std::uint64_t index) {
  switch (init.kind) {
    case InitKind::kConstant:
      return init.value;
    case InitKind::kNormal:
      return init.centre + init.value * keyed_normal(key, index);
    case InitKind::kUniform:
      return init.centre + init.value * (2.0 * keyed_uniform(key, index) - 1.0);
  }
  throw InternalError("internal error: unknown initialiser kind");
}

}  // namespace

template <class T>
void fill_parameter(T* out, const ParameterShard& shard, const Initializer& init,
                    std::uint64_t key) {
  ensure(shard.row_offset >= 0 && shard.col_offset >= 0, "a shard starts inside its parameter");
  const std::int64_t rows =
      std::clamp<std::int64_t>(shard.global_rows - shard.row_offset, 0, shard.rows);
  const std::int64_t cols =
      std::clamp<std::int64_t>(shard.global_cols - shard.col_offset, 0, shard.cols);
  for (std::int64_t r = 0; r < shard.rows; ++r) {
    T* line = out + r * shard.cols;
    const std::int64_t real = r < rows ? cols : 0;
    const auto first =
        static_cast<std::uint64_t>((shard.row_offset + r) * shard.global_cols + shard.col_offset);
    for (std::int64_t c = 0; c < real; ++c) {
      line[c] = static_cast<T>(draw(init, key, first + static_cast<std::uint64_t>(c)));
    }
    std::fill(line + real, line + shard.cols, T{0});
  }
}

template void fill_parameter<float>(float*, const ParameterShard&, const Initializer&,
                                    std::uint64_t);
template void fill_parameter<double>(double*, const ParameterShard&, const Initializer&,
                                     std::uint64_t);

}  // namespace parplan::hw
