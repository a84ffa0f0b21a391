#include "sim/core/error.hpp"

namespace parplan {

void ensure(bool condition, std::string_view promise) {
  if (!condition) {
    throw InternalError("internal error: broken promise: " + std::string(promise));
  }
}

}  // namespace parplan
