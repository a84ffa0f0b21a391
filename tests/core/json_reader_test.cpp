#include "sim/core/json_reader.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/core/json_document.hpp"
#include "sim/core/units.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

static_assert(RealQuantity<Seconds> && !IntegerQuantity<Seconds>);
static_assert(IntegerQuantity<Bytes> && !RealQuantity<Bytes>);

enum class Precision { kFloat32, kBFloat16 };
constexpr std::array kPrecisionNames{EnumName<Precision>{"float32", Precision::kFloat32},
                                     EnumName<Precision>{"bfloat16", Precision::kBFloat16}};

/// What reading `text`, named plan.json, by `read` says, or "no error".
std::string error_of(const std::string& text, const std::function<void(JsonReader&)>& read) {
  const JsonDocument document("plan.json", text);
  try {
    JsonReader reader(document);
    read(reader);
    reader.finish();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every kind of member is read", "[core]") {
  const JsonDocument document("plan.json", R"({
    "name": "a", "count": 3, "least": -9223372036854775808, "most": 9223372036854775807,
    "ratio": 0.25, "whole": 2, "on": true, "dtype": "bfloat16", "latency_s": 1e-6,
    "memory_bytes": 9007199254740993, "nothing": null,
    "layers": [{"heads": 8}, {"heads": 16}], "sizes": [1, 2], "layout": {"tp": 2}})");
  JsonReader reader(document);
  CHECK(reader.string("name") == "a");
  CHECK(reader.integer<int>("count", 1, 3) == 3);
  CHECK(reader.integer("least") == std::numeric_limits<std::int64_t>::min());
  CHECK(reader.integer("most") == std::numeric_limits<std::int64_t>::max());
  CHECK(reader.integer<std::size_t>("count") == 3U);
  CHECK(reader.number("ratio") == 0.25);
  CHECK(reader.number("whole", NumberRange::between(1, 2)) == 2.0);
  CHECK(reader.boolean("on"));
  CHECK(reader.enumeration<Precision>("dtype", kPrecisionNames) == Precision::kBFloat16);
  CHECK(reader.quantity<Seconds>("latency_s").value == 1e-6);
  CHECK(reader.quantity<Bytes>("memory_bytes").value == 9007199254740993);
  std::vector<int> heads;
  reader.array("layers",
               [&](JsonReader& layer) { heads.push_back(layer.integer<int>("heads", 1)); });
  CHECK(heads == std::vector<int>{8, 16});
  std::vector<int> sizes;
  reader.array("sizes", [&](JsonElement size) { sizes.push_back(size.integer<int>()); });
  CHECK(sizes == std::vector<int>{1, 2});
  int tp = 0;
  reader.object("layout", [&](JsonReader& layout) { tp = layout.integer<int>("tp", 1); });
  CHECK(tp == 2);
  CHECK(reader.require("nothing").is_null());
  CHECK(reader.require("sizes").at(1).path() == "$.sizes[1]");
  CHECK_NOTHROW(reader.finish());
}

TEST_CASE("an optional member is none when it is absent or null, and checked otherwise", "[core]") {
  const JsonDocument document("plan.json", R"({"s": "a", "b": false, "n": 0.5, "i": 7, "q": 2,
    "e": "float32", "o": {"x": 1}, "a": [1], "z": null})");
  JsonReader reader(document);
  CHECK(reader.optional_string("s") == "a");
  CHECK(reader.optional_boolean("b") == false);
  CHECK(reader.optional_number("n") == 0.5);
  CHECK(reader.optional_integer<int>("i", 0, 7) == 7);
  CHECK(reader.optional_quantity<Seconds>("q")->value == 2.0);
  CHECK(reader.optional_enumeration<Precision>("e", kPrecisionNames) == Precision::kFloat32);
  CHECK(reader.optional_object("o", [](JsonReader& o) { CHECK(o.integer("x") == 1); }));
  CHECK(reader.optional_object("o").has_value());
  CHECK(reader.optional_array("a", [](JsonElement item) { CHECK(item.integer() == 1); }));
  for (const char* none : {"z", "absent"}) {
    CHECK_FALSE(reader.has(none));
    CHECK_FALSE(reader.optional_string(none));
    CHECK_FALSE(reader.optional_boolean(none));
    CHECK_FALSE(reader.optional_number(none));
    CHECK_FALSE(reader.optional_integer(none));
    CHECK_FALSE(reader.optional_quantity<Bytes>(none));
    CHECK_FALSE(reader.optional_enumeration<Precision>(none, kPrecisionNames));
    CHECK_FALSE(reader.optional_object(none).has_value());
    CHECK_FALSE(reader.optional_object(none, [](JsonReader&) { FAIL("read"); }));
    CHECK_FALSE(reader.optional_array(none, [](JsonElement) { FAIL("read"); }));
  }
  CHECK_NOTHROW(reader.finish());
  CHECK_THROWS_WITH(reader.optional_integer<int>("i", 8),
                    "plan.json:1: $.i: expected an integer >= 8, found 7");
}

TEST_CASE("a value of the wrong kind is named by file, line, path, expectation and finding",
          "[core]") {
  const std::string text = "{\n \"layout\": {\n  \"tp\": \"two\"\n }\n}";
  const auto read_tp = [](JsonReader& reader) {
    reader.object("layout",
                  [](JsonReader& layout) { static_cast<void>(layout.integer<int>("tp", 1)); });
  };
  CHECK(error_of(text, read_tp) ==
        "plan.json:3: $.layout.tp: expected an integer >= 1, found \"two\"");

  const auto wrong = [](const std::string& value, const std::function<void(JsonElement)>& read) {
    return error_of("{\"x\":\n" + value + "}", [&](JsonReader& r) { read(r.require("x")); });
  };
  const auto text_of = [](JsonElement e) { static_cast<void>(e.string()); };
  CHECK(wrong("1", text_of) == "plan.json:1: $.x: expected a string, found 1");
  CHECK(wrong("null", text_of) == "plan.json:1: $.x: expected a string, found null");
  CHECK(wrong("{\"a\": 1}", text_of) == "plan.json:1: $.x: expected a string, found an object");
  CHECK(wrong("{}", text_of) == "plan.json:1: $.x: expected a string, found an empty object");
  CHECK(wrong("[1]", text_of) == "plan.json:1: $.x: expected a string, found an array");
  CHECK(wrong("[]", text_of) == "plan.json:1: $.x: expected a string, found an empty array");
  CHECK(wrong("1", [](JsonElement e) { static_cast<void>(e.boolean()); }) ==
        "plan.json:1: $.x: expected true or false, found 1");
  CHECK(wrong("true", [](JsonElement e) { static_cast<void>(e.number()); }) ==
        "plan.json:1: $.x: expected a number, found true");
  CHECK(wrong("1", [](JsonElement e) { static_cast<void>(e.size()); }) ==
        "plan.json:1: $.x: expected an array, found 1");
  CHECK(wrong("1", [](JsonElement e) { JsonReader reader(e); }) ==
        "plan.json:1: $.x: expected an object, found 1");
  CHECK(wrong("\"" + std::string(60, 'a') + "\"", [](JsonElement e) {
          static_cast<void>(e.number());
        }) == "plan.json:1: $.x: expected a number, found \"" + std::string(39, 'a') + "...");
  CHECK(wrong("[1, [2,\n\"a\"]]", [](JsonElement e) {
          static_cast<void>(e.at(1).at(1).integer());
        }) == "plan.json:3: $.x[1][1]: expected an integer, found \"a\"");
  CHECK(wrong("1", [](JsonElement e) { e.fail("tp must divide heads"); }) ==
        "plan.json:1: $.x: tp must divide heads");
}

TEST_CASE("a document that is no object is refused", "[core]") {
  const JsonDocument document("plan.json", "\n[1]");
  CHECK_THROWS_WITH(JsonReader(document), "plan.json:2: $: expected an object, found an array");
}

TEST_CASE("integers are exact and within their range", "[core]") {
  const auto in_range = [](const std::string& value, std::int64_t min, std::int64_t max) {
    return error_of("{\"x\": " + value + "}",
                    [&](JsonReader& r) { static_cast<void>(r.integer("x", min, max)); });
  };
  CHECK(in_range("0", 1, 8) == "plan.json:1: $.x: expected an integer between 1 and 8, found 0");
  CHECK(in_range("9", 1, 8) == "plan.json:1: $.x: expected an integer between 1 and 8, found 9");
  CHECK(in_range("1", 1, 8) == "no error");
  CHECK(in_range("8", 1, 8) == "no error");
  CHECK(in_range("2.0", 1, 8) ==
        "plan.json:1: $.x: expected an integer between 1 and 8, found 2.0");
  CHECK(in_range("2e0", 1, 8) ==
        "plan.json:1: $.x: expected an integer between 1 and 8, found 2e0");
  const auto of_64 = [](const std::string& value) {
    return error_of("{\"x\": " + value + "}",
                    [](JsonReader& r) { static_cast<void>(r.integer("x")); });
  };
  CHECK(of_64("1.5") == "plan.json:1: $.x: expected an integer, found 1.5");
  CHECK(of_64("9223372036854775808") ==
        "plan.json:1: $.x: expected an integer <= 9223372036854775807, found 9223372036854775808");
  CHECK(of_64("18446744073709551616") ==
        "plan.json:1: $.x: expected an integer <= 9223372036854775807, found 18446744073709551616");
  CHECK(of_64("-9223372036854775809") ==
        "plan.json:1: $.x: expected an integer >= -9223372036854775808, found "
        "-9223372036854775809");
  CHECK(error_of("{\"x\": 2147483648}", [](JsonReader& r) {
          static_cast<void>(r.integer<int>("x", 1));
        }) == "plan.json:1: $.x: expected an integer between 1 and 2147483647, found 2147483648");
  CHECK(error_of("{\"x\": -1}", [](JsonReader& r) {
          static_cast<void>(r.integer<std::size_t>("x"));
        }) == "plan.json:1: $.x: expected an integer >= 0, found -1");
}

TEST_CASE("numbers keep their bounds", "[core]") {
  const auto within = [](const std::string& value, NumberRange range) {
    return error_of("{\"x\": " + value + "}",
                    [&](JsonReader& r) { static_cast<void>(r.number("x", range)); });
  };
  CHECK(within("-0.5", NumberRange::at_least(0)) ==
        "plan.json:1: $.x: expected a number >= 0, found -0.5");
  CHECK(within("0", NumberRange::at_least(0)) == "no error");
  CHECK(within("0", NumberRange::above(0)) == "plan.json:1: $.x: expected a number > 0, found 0");
  CHECK(within("1.5", NumberRange::between(0, 1)) ==
        "plan.json:1: $.x: expected a number between 0 and 1, found 1.5");
  CHECK(within("2", {.max = 1}) == "plan.json:1: $.x: expected a number <= 1, found 2");
  CHECK(within("0", {.min = 0, .max = 0.5, .above_min = true}) ==
        "plan.json:1: $.x: expected a number > 0 and <= 0.5, found 0");
}

TEST_CASE("quantities are not negative unless they may be", "[core]") {
  CHECK(error_of("{\"latency_s\": -1e-6}", [](JsonReader& r) {
          static_cast<void>(r.quantity<Seconds>("latency_s"));
        }) == "plan.json:1: $.latency_s: expected a number >= 0, found -1e-6");
  CHECK(error_of("{\"size_bytes\": -1}", [](JsonReader& r) {
          static_cast<void>(r.quantity<Bytes>("size_bytes"));
        }) == "plan.json:1: $.size_bytes: expected an integer >= 0, found -1");
  CHECK(error_of("{\"size_bytes\": 1.5}", [](JsonReader& r) {
          static_cast<void>(r.quantity<Bytes>("size_bytes"));
        }) == "plan.json:1: $.size_bytes: expected an integer >= 0, found 1.5");
  CHECK(error_of("{\"rate\": 0}", [](JsonReader& r) {
          static_cast<void>(r.quantity<Seconds>("rate", NumberRange::above(0)));
        }) == "plan.json:1: $.rate: expected a number > 0, found 0");
  CHECK(error_of("{\"size_bytes\": 0}", [](JsonReader& r) {
          static_cast<void>(r.quantity<Bytes>("size_bytes", 1));
        }) == "plan.json:1: $.size_bytes: expected an integer >= 1, found 0");
}

TEST_CASE("an unknown name lists those allowed and guesses", "[core]") {
  const auto dtype = [](const std::string& value) {
    return error_of("{\"dtype\": " + value + "}", [](JsonReader& r) {
      static_cast<void>(r.enumeration<Precision>("dtype", kPrecisionNames));
    });
  };
  CHECK(dtype("\"float23\"") ==
        "plan.json:1: $.dtype: expected one of 'float32', 'bfloat16', found \"float23\"; did you "
        "mean 'float32'?");
  CHECK(dtype("\"int8\"") ==
        "plan.json:1: $.dtype: expected one of 'float32', 'bfloat16', found \"int8\"");
  CHECK(dtype("32") == "plan.json:1: $.dtype: expected a string, found 32");
}

TEST_CASE("a missing key is named with the place it is missing from", "[core]") {
  const auto need = [](JsonReader& reader) {
    reader.array("layers",
                 [](JsonReader& layer) { static_cast<void>(layer.integer<int>("heads", 1)); });
  };
  CHECK(error_of("{\"layers\": [\n{\"heads\": 1},\n{}]}", need) ==
        "plan.json:3: missing key 'heads' at $.layers[1]");
  CHECK(error_of("{\"layers\": [{\"head\": 1}]}", need) ==
        "plan.json:1: missing key 'heads' at $.layers[0]; it has the similar key 'head'");
  CHECK(error_of("{}", need) == "plan.json:1: missing key 'layers' at $");
}

TEST_CASE("an unknown key is named with the nearest one known there", "[core]") {
  const auto read = [](JsonReader& reader) {
    reader.optional_array("layers", [](JsonReader& layer) {
      static_cast<void>(layer.optional_integer<int>("heads", 1));
      static_cast<void>(layer.optional_integer<int>("hidden", 1));
    });
  };
  CHECK(error_of("{\"layers\": [{}, {},\n{\"hidden\": 1,\n\"head\": 8}]}", read) ==
        "plan.json:3: unknown key 'head' at $.layers[2]; did you mean 'heads'?");
  CHECK(error_of("{\"layers\": [{\"colour\": 1}]}", read) ==
        "plan.json:1: unknown key 'colour' at $.layers[0]; the known keys are 'heads', 'hidden'");
  CHECK(error_of("{\"x\": null}", [](JsonReader&) {}) ==
        "plan.json:1: unknown key 'x' at $; it has no keys");
  CHECK(error_of("{\"a\\u001b[31m\": 1}", [](JsonReader&) {}) ==
        "plan.json:1: unknown key 'a\\u001b[31m' at $; it has no keys");
  CHECK(error_of("{\"o\": {\"x y\": {\"z\": 1}}}", [](JsonReader& reader) {
          reader.object("o", [](JsonReader& o) { o.object("x y", [](JsonReader&) {}); });
        }) == "plan.json:1: unknown key 'z' at $.o[\"x y\"]; it has no keys");
}

TEST_CASE("keys of other formats are ignored on request", "[core]") {
  CHECK(error_of("{\"a\": 1, \"b\": 2}", [](JsonReader& reader) { reader.ignore("a"); }) ==
        "plan.json:1: unknown key 'b' at $; the known keys are 'a'");
  CHECK(error_of("{\"a\": 1, \"b\": 2}", [](JsonReader& reader) { reader.ignore_rest(); }) ==
        "no error");
}

TEST_CASE("objects whose keys are data give each member not read before", "[core]") {
  const JsonDocument document("plan.json", R"({"format": "x", "b": 2, "a": 1})");
  JsonReader reader(document);
  CHECK(reader.string("format") == "x");
  std::string seen;
  reader.each_member([&](const std::string& key, JsonElement value) {
    seen += key + std::to_string(value.integer());
  });
  CHECK(seen == "a1b2");
  CHECK_NOTHROW(reader.finish());
}

TEST_CASE("a file of another format or version is refused with what is needed", "[core]") {
  const auto header = [](const std::string& text) {
    return error_of(text, [](JsonReader& reader) {
      const int version = expect_format(reader, "parplan/plan", 2, 3);
      CHECK((version == 2 || version == 3));
    });
  };
  CHECK(header(R"({"format": "parplan/plan", "version": 2})") == "no error");
  CHECK(header(R"({"format": "parplan/plan", "version": 3})") == "no error");
  CHECK(header("{\"format\":\n\"parplan/machine\", \"version\": 2}") ==
        "plan.json:1: $.format: this is a parplan/machine file, a parplan/plan file is needed "
        "here");
  CHECK(header(R"({"format": "other"})") ==
        "plan.json:1: $.format: expected \"parplan/plan\", found \"other\"");
  CHECK(header(R"({"format": "parplan/\u001b"})") ==
        "plan.json:1: $.format: expected \"parplan/plan\", found \"parplan/\\u001b\"");
  CHECK(header(R"({"format": 1})") == "plan.json:1: $.format: expected a string, found 1");
  CHECK(header("\n{}") ==
        "plan.json:2: $: missing key 'format'; a parplan/plan file begins with \"format\": "
        "\"parplan/plan\"");
  CHECK(header(R"({"format": "parplan/plan"})") == "plan.json:1: missing key 'version' at $");
  CHECK(header(R"({"format": "parplan/plan", "version": 4})") ==
        "plan.json:1: $.version: this parplan/plan file has version 4, newer than the newest this "
        "program reads (3)");
  CHECK(header(R"({"format": "parplan/plan", "version": 1})") ==
        "plan.json:1: $.version: this parplan/plan file has version 1, older than the oldest this "
        "program reads (2)");
  CHECK(header(R"({"format": "parplan/plan", "version": "2"})") ==
        "plan.json:1: $.version: expected an integer >= 1, found \"2\"");
}

TEST_CASE("files of others are named when one of ours is needed", "[core]") {
  const auto refusal = [](const char* text) -> std::string {
    const JsonDocument document("file.json", text);
    JsonReader reader(document);
    try {
      static_cast<void>(expect_format(reader, "parplan/plan", 1, 1));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK(refusal(R"({"traceEvents": []})") ==
        "file.json:1: $: this is a trace, a parplan/plan file is needed here");
  CHECK(refusal(R"({"model_type": "gpt2"})") ==
        "file.json:1: $: this is a Hugging Face config.json, a parplan/plan file is needed here");
}
