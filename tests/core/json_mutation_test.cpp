// Broken documents of every kind: whatever the bytes, the only exception is InputError, and our
// account of what is wrong agrees with nlohmann::json about whether something is.

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/json_document.hpp"
#include "sim/core/json_reader.hpp"
#include "sim/core/json_scanner.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

enum class Color { kRed, kGreen };
constexpr std::array kColorNames{EnumName<Color>{"red", Color::kRed},
                                 EnumName<Color>{"green", Color::kGreen}};

const std::string kSample = R"({
  "format": "parplan/sample",
  "version": 1,
  "name": "caf\u00e9 )"
                            "\xC3\xA9\xF0\x9F\x98\x80"
                            R"( \ud83d\ude00 \"q\"",
  "color": "green",
  "on": true,
  "latency_s": 1.5e-6,
  "count": -42,
  "none": null,
  "layers": [
    {"heads": 8, "sizes": [1, 2, 3]},
    {"heads": 16, "sizes": []}
  ]
}
)";

void read_sample(const JsonDocument& document) {
  JsonReader reader(document);
  static_cast<void>(expect_format(reader, "parplan/sample", 1, 1));
  static_cast<void>(reader.string("name"));
  static_cast<void>(reader.enumeration<Color>("color", kColorNames));
  static_cast<void>(reader.boolean("on"));
  static_cast<void>(reader.number("latency_s", NumberRange::at_least(0)));
  static_cast<void>(reader.integer<int>("count", -100, 100));
  static_cast<void>(reader.optional_number("none"));
  reader.array("layers", [](JsonReader& layer) {
    static_cast<void>(layer.integer<int>("heads", 1));
    layer.array("sizes", [](JsonElement size) { static_cast<void>(size.integer(1, 3)); });
  });
  reader.finish();
}

/// Reads `text`; false if that was refused. Any exception but InputError fails the test.
bool reads(const std::string& text) {
  try {
    const JsonDocument document("sample.json", text);
    read_sample(document);
    return true;
  } catch (const InputError& error) {
    const std::string message = error.what();
    if (message.rfind("sample.json:", 0) != 0) FAIL("no place in: " << message);
    // The plain text of the last resort would mean that our own reading missed the fault.
    if (message.find("this is not valid JSON") != std::string::npos) FAIL(message);
    return false;
  }
}

/// Whether nlohmann::json and we differ on `text`, though not by what we refuse beyond it: a key
/// twice, and a zero byte, which it takes for the end of the text.
bool judged_differently(const std::string& text) {
  const bool plain = text.find('\0') == std::string::npos && nlohmann::json::accept(text);
  const std::optional<JsonFault> fault = find_fault(text);
  if (fault && fault->message.find("in this object twice") != std::string::npos) return false;
  return plain == fault.has_value();
}

}  // namespace

TEST_CASE("the sample of the mutation test is valid", "[core]") { CHECK(reads(kSample)); }

TEST_CASE("a document cut at any byte is an input error", "[core]") {
  for (std::size_t length = 0; length < kSample.size() - 1; ++length) {
    const std::string text = kSample.substr(0, length);
    INFO("cut at byte " << length);
    if (reads(text) || judged_differently(text)) FAIL("not refused, or for different reasons");
  }
  CHECK(reads(kSample.substr(0, kSample.size() - 1)));  // only the last line break is missing
}

TEST_CASE("a document with any byte replaced reads or is an input error", "[core]") {
  using std::string_view_literals::operator""sv;
  const auto bytes = "\0\x01\n \"\\{}[],:0159.-+eEtfnNu/'#a_~\x7F\x80\xBF\xC3\xED\xF0\xF4\xFF"sv;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < kSample.size(); ++i) {
    for (const char byte : bytes) {
      std::string text = kSample;
      text[i] = byte;
      INFO("byte " << i << " becomes " << static_cast<int>(byte));
      if (!reads(text)) ++refused;
      if (judged_differently(text)) FAIL("we and nlohmann::json differ");
    }
  }
  CHECK(refused > kSample.size() * bytes.size() / 2);
}

TEST_CASE("a document with bytes removed, doubled or shuffled reads or is an input error",
          "[core]") {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (int round = 0; round < 3000; ++round) {
    std::string text = kSample;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      const std::size_t length = 1 + below(12);
      switch (below(3)) {
        case 0:
          text.erase(at, length);
          break;
        case 1:
          text.insert(below(text.size()), text.substr(at, length));
          break;
        default:
          std::swap(text[at], text[below(text.size())]);
      }
    }
    INFO(text);
    static_cast<void>(reads(text));
    if (judged_differently(text)) FAIL("we and nlohmann::json differ");
  }
}
