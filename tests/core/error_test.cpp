#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

TEST_CASE("a broken promise is an internal error that names the promise", "[core]") {
  CHECK_NOTHROW(parplan::ensure(true, "never shown"));
  CHECK_THROWS_WITH(parplan::ensure(false, "ranks are positive"),
                    "internal error: broken promise: ranks are positive");
}
