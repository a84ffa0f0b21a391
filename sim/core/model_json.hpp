#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/core/json_reader.hpp"
#include "sim/core/model.hpp"

namespace parplan {

/// A model file: docs/formats/model.md. Values and parameters are referred to by name; outputs of
/// ops need no entry in "values" unless another op reads them under a name of its own.
nlohmann::ordered_json to_json(const Model& model);
/// Reads the members of a model object (after "format" and "version", if it is a file). Throws
/// InputError with file, line and path; the result has passed `check_model`.
Model read_model(JsonReader& reader);

}  // namespace parplan
