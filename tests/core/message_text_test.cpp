#include "sim/core/message_text.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch2_compat.hpp"

using namespace parplan;

TEST_CASE("names in messages have an end", "[core]") {
  CHECK(shortened("\xC3\xA9\xC3\xA9", 3) == "\xC3\xA9...");
  CHECK(shortened("abc", 3) == "abc");
  CHECK(quoted_name("layer") == "'layer'");
  CHECK(quoted_name(std::string(80, 'a')) == "'" + std::string(80, 'a') + "'");
  CHECK(quoted_name(std::string(5'000'000, 'a')) == "'" + std::string(80, 'a') + "...'");
}

TEST_CASE("of many items the first are listed and the others counted", "[core]") {
  const std::vector<std::string> items{"a", "b", "c", "d", "e"};
  CHECK(first_of(items, 2) == "a; b; and 3 more");
  CHECK(first_of(items, 5) == "a; b; c; d; e");
  CHECK(first_of(items, 4, ", ") == "a, b, c, d, and 1 more");
  CHECK(first_of({}, 2).empty());
}

TEST_CASE("numbers in messages are the shortest that read back", "[core]") {
  CHECK(shortest_text(1e300) == "1e+300");
  CHECK(shortest_text(0.1) == "0.1");
  CHECK(shortest_text(0.1 + 0.2) == "0.30000000000000004");
  CHECK(shortest_text(-7.0) == "-7");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(shortest_text(std::copysign(nan, -1.0)) == "nan");
  CHECK(shortest_text(nan) == "nan");
  CHECK(shortest_text(-std::numeric_limits<double>::infinity()) == "-inf");
}
