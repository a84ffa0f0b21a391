#include "sim/core/json_writer.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "sim/core/error.hpp"
#include "sim/core/json_document.hpp"
#include "tests/catch2_compat.hpp"

using nlohmann::ordered_json;
using parplan::dump;
using parplan::InternalError;

namespace {

/// The bits of a double after writing and reading it.
std::uint64_t round_trip(double value) {
  const parplan::JsonDocument document("f", dump(ordered_json(value)));
  REQUIRE(document.root().is_number_float());
  return std::bit_cast<std::uint64_t>(document.root().get<double>());
}

}  // namespace

TEST_CASE("a document is written with stable keys, two spaces and short arrays on a line",
          "[core]") {
  ordered_json value;
  value["zeta"] = 1;
  value["alpha"] = {{"x", {1, 2.5, "a", nullptr, true}}, {"empty", ordered_json::object()}};
  value["list"] = ordered_json::array({{{"k", 1}}, ordered_json::array(), "caf\xC3\xA9\n"});
  CHECK(dump(value) ==
        "{\n"
        "  \"zeta\": 1,\n"
        "  \"alpha\": {\n"
        "    \"x\": [1, 2.5, \"a\", null, true],\n"
        "    \"empty\": {}\n"
        "  },\n"
        "  \"list\": [\n"
        "    {\n"
        "      \"k\": 1\n"
        "    },\n"
        "    [],\n"
        "    \"caf\xC3\xA9\\n\"\n"
        "  ]\n"
        "}\n");
  CHECK(dump(value) == dump(ordered_json(value)));
  CHECK(dump(ordered_json()) == "null\n");
  CHECK(dump(ordered_json::object()) == "{}\n");
  CHECK(dump(ordered_json::array()) == "[]\n");
}

TEST_CASE("an array that does not fit 100 columns takes a line per item", "[core]") {
  // [ + 94 with quotes + comma and space + two quotes + ] = 100
  const std::string fits(92, 'a');
  CHECK(dump(ordered_json{fits, ""}) == "[\"" + fits + "\", \"\"]\n");
  CHECK(dump(ordered_json{fits + "a", ""}) == "[\n  \"" + fits + "a\",\n  \"\"\n]\n");
}

TEST_CASE("doubles are written with the fewest digits and stay doubles", "[core]") {
  CHECK(dump(ordered_json(0.1)) == "0.1\n");
  CHECK(dump(ordered_json(1.0)) == "1.0\n");
  CHECK(dump(ordered_json(-0.0)) == "-0.0\n");
  CHECK(dump(ordered_json(1e22)) == "1e+22\n");
  CHECK(dump(ordered_json(5e-324)) == "5e-324\n");
  CHECK(dump(ordered_json(1.0 / 3.0)) == "0.3333333333333333\n");
}

TEST_CASE("every double is read back bit for bit", "[core]") {
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0, -0.0, 1.0, -1.5, 0.1, 100000.0, 1e21, 1e22, 9007199254740993.0,
                             Limits::min(), Limits::max(), Limits::lowest(), Limits::denorm_min(),
                             Limits::epsilon(), 2.2250738585072011e-308}) {
    CHECK(round_trip(value) == std::bit_cast<std::uint64_t>(value));
  }
  std::mt19937_64 bits(20240501);
  std::size_t differing = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto value = std::bit_cast<double>(bits());
    if (std::isfinite(value) && round_trip(value) != std::bit_cast<std::uint64_t>(value)) {
      ++differing;
    }
  }
  CHECK(differing == 0);
}

TEST_CASE("every integer of 64 bits and every string is read back exactly", "[core]") {
  ordered_json value;
  value["least"] = std::numeric_limits<std::int64_t>::min();
  value["most"] = std::numeric_limits<std::int64_t>::max();
  value["unsigned"] = std::numeric_limits<std::uint64_t>::max();
  value["beyond_double"] = 9007199254740993;
  std::string all;
  for (char c = 0; c < 127; ++c) all += c;
  value[all] = all + "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  const std::string text = dump(value);
  const parplan::JsonDocument document("f", text);
  CHECK(document.root() == nlohmann::json(value));
  CHECK(document.root().at("beyond_double").get<std::int64_t>() == 9007199254740993);
  CHECK(dump(ordered_json::parse(text)) == text);
}

TEST_CASE("what JSON cannot hold is our own error, with its path", "[core]") {
  ordered_json value;
  value["a"] = {1.0, std::numeric_limits<double>::quiet_NaN()};
  CHECK_THROWS_WITH(
      dump(value), "internal error: broken promise: numbers that are written are finite at $.a[1]");
  CHECK_THROWS_AS(dump(value), InternalError);
  value["a"] = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(dump(value), InternalError);
  value["a"] = "\xFF";
  CHECK_THROWS_WITH(dump(value),
                    "internal error: broken promise: strings that are written are UTF-8 at $.a");
  CHECK_THROWS_WITH(dump(ordered_json{{"\xFF", 1}}),
                    "internal error: broken promise: strings that are written are UTF-8 at "
                    "$[\"\xEF\xBF\xBD\"]");
  value["a"] = ordered_json::binary({1, 2});
  CHECK_THROWS_AS(dump(value), InternalError);
}

TEST_CASE("a document is not written deeper than it can be read", "[core]") {
  ordered_json value = 1;
  for (int i = 0; i < 200; ++i) value = ordered_json::object({{"a", std::move(value)}});
  CHECK_NOTHROW(parplan::JsonDocument("f", dump(value)));
  value = ordered_json::object({{"a", std::move(value)}});
  CHECK_THROWS_AS(dump(value), InternalError);
}
