#include "sim/core/error.hpp"

namespace parplan {

void fail_promise(std::string_view promise) {
  throw InternalError("internal error: broken promise: " + std::string(promise));
}

}  // namespace parplan
