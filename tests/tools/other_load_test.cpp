#include "tools/profile/other_load.hpp"

#include "tests/catch2_compat.hpp"

using parplan::tools::busy_seconds;

TEST_CASE("busy time leaves out idle time and counts what the hypervisor took", "[tools]") {
  // proc(5): user nice system idle iowait irq softirq steal guest guest_nice.
  const std::string text =
      "cpu  999 20 30 4000 500 6 7 80 9 1\ncpu0 100 20 30 4000 500 6 7 80 9 1\ncpu1 1 2 3 4\n"
      "cpu12 1 0 0 0 0 0 0 1 0 0\nintr 5 6 7\n";
  CHECK(busy_seconds(text, 100.0, {0}) == Approx(2.43));
  CHECK(busy_seconds(text, 100.0, {0, 1}) == Approx(2.49));
  CHECK(busy_seconds(text, 100.0, {12}) == Approx(0.02));
  CHECK(busy_seconds(text, 100.0, {2}) == 0.0);
  CHECK(busy_seconds("", 100.0, {0}) == 0.0);
}
