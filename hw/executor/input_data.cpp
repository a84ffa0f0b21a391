#include "hw/executor/input_data.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "hw/half.hpp"
#include "hw/random.hpp"
#include "sim/core/error.hpp"
#include "sim/core/positions.hpp"
#include "sim/core/resident_memory.hpp"

namespace parplan::hw {
namespace {

/// The name that keys a value's numbers; see InputData.
std::string_view key_name(const Model& model, ValueId value) {
  const ValueRole role = model.value(value).role;
  const std::string_view usual = role == ValueRole::kTokens     ? "tokens"
                                 : role == ValueRole::kFeatures ? "inputs"
                                                                : "targets";
  bool usual_is_taken = false;
  bool first = true;
  for (std::uint32_t i = 0; i < model.values.size(); ++i) {
    if (model.values[i].role != role) continue;
    usual_is_taken = usual_is_taken || model.values[i].name == usual;
    first = first && i >= value.index;
  }
  return first && !usual_is_taken ? usual : std::string_view(model.value(value).name);
}

/// How many ids the op that reads `value` knows.
std::int64_t vocabulary_of(const Model& model, ValueId value) {
  for (const Op& op : model.ops) {
    for (const ValueId input : op.inputs) {
      if (input != value) continue;
      if (const auto* embedding = std::get_if<EmbeddingOp>(&op.body)) return embedding->vocabulary;
      if (const auto* loss = std::get_if<CrossEntropyOp>(&op.body)) return loss->vocabulary;
    }
  }
  throw InternalError("token value '" + model.value(value).name +
                      "' is read by an embedding or a cross-entropy");
}

bool holds_ids(ValueRole role) { return role == ValueRole::kTokens || role == ValueRole::kClasses; }

}  // namespace

void check_token_data(const Model& model, const Workload& workload) {
  if (workload.data.kind != DataKind::kTokenFile) return;
  int token_values = 0;
  for (const Value& value : model.values) {
    const bool real = value.role == ValueRole::kFeatures || value.role == ValueRole::kRealTarget;
    token_values += value.role == ValueRole::kTokens ? 1 : 0;
    if (real || token_values > 1 ||
        (holds_ids(value.role) && value.positions != Positions::kSequence)) {
      throw InputError(
          "token file '" + workload.data.path + "' cannot give '" + value.name + "' of model '" +
          model.name +
          "': it holds one sequence of tokens and their successors; use synthetic data");
    }
  }
  const std::int64_t tokens =
      count_tokens(workload.data.path, workload.data.width, workload.sequence);
  if (tokens != workload.data.tokens.value_or(tokens)) {
    throw InputError("token file '" + workload.data.path + "' has " + std::to_string(tokens) +
                     " tokens, it had " + std::to_string(*workload.data.tokens) +
                     " when the plan was made; give the file back or plan again");
  }
}

void check_token_ids(const Model& model, const Workload& workload) {
  if (workload.data.kind != DataKind::kTokenFile) return;
  std::optional<std::int64_t> vocabulary;
  for (std::uint32_t i = 0; i < model.values.size(); ++i) {
    if (!holds_ids(model.values[i].role)) continue;
    const std::int64_t own = vocabulary_of(model, ValueId{i});
    vocabulary = std::min(vocabulary.value_or(own), own);
  }
  if (vocabulary) check_ids(workload.data.path, workload.data.width, *vocabulary);
}

InputData::InputData(const Model& model, const Workload& workload, std::span<const ValueId> loaded)
    : workload_(workload), samples_(workload.data.samples) {
  if (workload.data.kind == DataKind::kTokenFile) {
    check_token_data(model, workload);
    file_ = std::make_unique<TokenFile>(workload.data.path, workload.data.width, workload.sequence);
    samples_ = file_->samples();
  }
  for (const ValueId value : loaded) sources_.try_emplace(value, make_source(model, value));
}

InputData::Source InputData::make_source(const Model& model, ValueId id) const {
  const Value& value = model.value(id);
  Source source;
  source.role = value.role;
  source.key = tensor_key(workload_.seed, key_name(model, id));
  source.row = positions_of(value, workload_) * (holds_ids(value.role) ? 1 : value.features);
  if (holds_ids(value.role)) source.vocabulary = vocabulary_of(model, id);
  source.kept = PageBuffer(static_cast<std::size_t>(kept_input_bytes(value, workload_).value));
  if (source.kept.empty()) return source;
  draw_reals(source, 0, samples_ * source.row, source.kept.data());
  return source;
}

void InputData::load_ids(const Source& source, std::span<const std::int64_t> samples,
                         std::int32_t* out) const {
  for (const std::int64_t sample : samples) {
    const std::span<std::int32_t> row(out, static_cast<std::size_t>(source.row));
    if (file_) {
      file_->read(sample, source.role == ValueRole::kClasses ? 1 : 0, source.vocabulary, row);
    } else {
      const auto first = static_cast<std::uint64_t>(sample * source.row);
      const auto vocabulary = static_cast<std::uint64_t>(source.vocabulary);
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<std::int32_t>(keyed_u64(source.key, first + i) % vocabulary);
      }
    }
    out += source.row;
  }
}

void InputData::draw_reals(const Source& source, std::int64_t first, std::int64_t count,
                           std::byte* out) const {
  const auto at = static_cast<std::uint64_t>(first);
  switch (workload_.precision) {
    case DType::kFloat64:
      return fill_normals(reinterpret_cast<double*>(out), count, source.key, at);
    case DType::kFloat32:
      return fill_normals(reinterpret_cast<float*>(out), count, source.key, at);
    case DType::kBFloat16:
    case DType::kFloat16: {
      constexpr std::int64_t kPiece = 4096;
      std::array<float, kPiece> exact;
      for (std::int64_t i = 0; i < count; i += kPiece) {
        const std::int64_t piece = std::min(kPiece, count - i);
        fill_normals(exact.data(), piece, source.key, at + static_cast<std::uint64_t>(i));
        narrow(out + i * bytes_of(workload_.precision), workload_.precision, exact.data(), piece);
      }
      return;
    }
    case DType::kInt32:
      break;
  }
  throw InternalError("real inputs have a floating type");
}

void InputData::load_reals(const Source& source, std::span<const std::int64_t> samples,
                           std::byte* out) const {
  const std::int64_t bytes = source.row * bytes_of(workload_.precision);
  for (const std::int64_t sample : samples) {
    if (source.kept.empty()) {
      draw_reals(source, sample * source.row, source.row, out);
    } else {
      std::memcpy(out, source.kept.data() + sample * bytes, static_cast<std::size_t>(bytes));
    }
    out += bytes;
  }
}

void InputData::load(ValueId value, std::span<const std::int64_t> samples, std::byte* out) const {
  const auto found = sources_.find(value);
  ensure(found != sources_.end(), "only values announced to InputData are loaded");
  const Source& source = found->second;
  if (holds_ids(source.role)) {
    load_ids(source, samples, reinterpret_cast<std::int32_t*>(out));
  } else {
    load_reals(source, samples, out);
  }
}

}  // namespace parplan::hw
