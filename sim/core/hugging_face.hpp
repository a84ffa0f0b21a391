#pragma once

#include <cstdint>
#include <optional>

#include "sim/core/json_document.hpp"
#include "sim/core/model.hpp"

namespace parplan {

/// Whether a JSON document looks like a Hugging Face `config.json` (it names a `model_type`).
bool is_hugging_face_config(const JsonDocument& document);

struct HuggingFaceModel {
  Model model;
  std::int64_t max_positions = 0;  ///< the longest sequence the file allows
};

/// Builds the decoder that a `config.json` of type gpt2, llama, mistral or qwen2 describes. Keys
/// that do not change a training step's mathematics are ignored; a setting that does and that we
/// cannot run (another model type, sliding windows in use, scaling of rotary positions other than
/// "llama3", an unknown activation, cross-attention, quantised weights, multipliers that are not 1)
/// is an InputError that names key and value. `dropout` replaces the file's probabilities. Weights
/// are drawn with `initializer_range`.
HuggingFaceModel model_from_hugging_face(const JsonDocument& document,
                                         std::optional<double> dropout = {});

}  // namespace parplan
