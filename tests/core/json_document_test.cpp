#include "sim/core/json_document.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/core/json_scanner.hpp"
#include "tests/catch2_compat.hpp"

using parplan::InputError;
using parplan::JsonDocument;

namespace {

/// What the parse of `text` says, or "no error".
std::string fault(const std::string& text) {
  try {
    const JsonDocument document("f", text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string nested(std::size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (std::size_t i = 0; i < depth; ++i) text += close;
  return text;
}

}  // namespace

TEST_CASE("a document holds the same value as the plain parser gives", "[core]") {
  const std::string text =
      R"({"a": [1, -2, 3.5, 1e3, true, null, "x\u00e9\n\ud83d\ude00"], "b": {"c": [], "d": {}},
          "big": 18446744073709551615, "small": -9223372036854775808, "e": [[1], [{}], 2]})";
  const JsonDocument document("f", text);
  CHECK(document.root() == nlohmann::json::parse(text));
  CHECK(document.name() == "f");
  CHECK(document.text() == text);
  for (const char* scalar : {"1", "\"a\"", "null", "true", "-0.5", " [] ", "\n{}\n"}) {
    CHECK(JsonDocument("f", scalar).root() == nlohmann::json::parse(scalar));
  }
  CHECK(JsonDocument("f", "\xEF\xBB\xBF{\"a\": 1}").root().at("a") == 1);
}

TEST_CASE("a file that is missing is an input error", "[core]") {
  CHECK_THROWS_WITH(JsonDocument::load("/no/such/file.json"),
                    "cannot read '/no/such/file.json': no such file or directory");
}

TEST_CASE("a syntax error names line, column, what was expected and what was found", "[core]") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "f:1:1: the file is empty, a JSON value is expected"},
      {" \n ", "f:2:2: the file is empty, a JSON value is expected"},
      {"\xEF\xBB\xBF", "f:1:1: the file is empty, a JSON value is expected"},
      {"hello", "f:1:1: expected a value, found 'hello'"},
      {"}", "f:1:1: expected a value, found '}'"},
      {"{", "f:1:2: expected a key in double quotes or '}', found the end of the file"},
      {"{1: 2}", "f:1:2: expected a key in double quotes or '}', found '1'"},
      {"{'a': 2}",
       "f:1:2: expected a key in double quotes or '}', found ''a''; JSON strings stand in double "
       "quotes"},
      {"{\"a\" 1}", "f:1:6: expected ':' after the key \"a\", found '1'"},
      {"{\"a\":}", "f:1:6: expected the value of \"a\", found '}'"},
      {"{\"a\":\n  tru}", "f:2:3: expected the value of \"a\", found 'tru'"},
      {"{\n\"a\": 1\n\"b\": 2}",
       "f:3:1: expected ',' or '}' in the object opened at line 1, found a string"},
      {"{\"a\": 1,}", "f:1:9: expected a key in double quotes after ',', found '}'"},
      {"{\"a\": 1",
       "f:1:8: expected ',' or '}' in the object opened at line 1, found the end of "
       "the file"},
      {"[1, 2",
       "f:1:6: expected ',' or ']' in the array opened at line 1, found the end of the "
       "file"},
      {"[1 2]", "f:1:4: expected ',' or ']' in the array opened at line 1, found '2'"},
      {"[1, ]", "f:1:5: expected a value after ',', found ']'"},
      {"[,1]", "f:1:2: expected a value or ']', found ','"},
      {"[1] x", "f:1:5: expected the end of the file after the document, found 'x'"},
      {"{}\n{}", "f:2:1: expected the end of the file after the document, found '{'"},
      {"[1, // one\n2]", "f:1:5: expected a value after ',', found '//'; JSON has no comments"},
      {"[True]", "f:1:2: expected a value or ']' (JSON writes true, false and null), found 'True'"},
      {"[\x01]", "f:1:2: expected a value or ']', found the control character U+0001"},
      {"[a-very-long-word-that-is-cut-off]",
       "f:1:2: expected a value or ']', found 'a-very-long-word-that-is...'"},
  };
  for (const auto& [text, message] : cases) CHECK(fault(text) == message);
}

TEST_CASE("a number that JSON does not have is refused", "[core]") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"[NaN]", "f:1:2: expected a finite number, found 'NaN' which JSON does not have"},
      {"[Infinity]", "f:1:2: expected a finite number, found 'Infinity' which JSON does not have"},
      {"[-Infinity]",
       "f:1:2: expected a finite number, found '-Infinity' which JSON does not have"},
      {"[-inf]", "f:1:2: expected a finite number, found '-inf' which JSON does not have"},
      {"[1e999]", "f:1:2: the number 1e999 is too large for a 64-bit float"},
      {"[012]", "f:1:2: expected a number without leading zeros, found '012'"},
      {"[-]", "f:1:3: expected a digit after '-', found ']'"},
      {"[1.]", "f:1:4: expected a digit after the decimal point, found ']'"},
      {"[1. ]", "f:1:4: expected a digit after the decimal point, found a space"},
      {"[1.\n]", "f:1:4: expected a digit after the decimal point, found the end of the line"},
      {"[1e+]", "f:1:5: expected a digit in the exponent, found ']'"},
      {"[+1]", "f:1:2: expected a value or ']', found '+1'"},
      {"[.5]", "f:1:2: expected a value or ']', found '.5'"},
      {"[0x10]", "f:1:3: expected ',' or ']' in the array opened at line 1, found 'x10'"},
      {"-", "f:1:2: expected a digit after '-', found the end of the file"},
  };
  for (const auto& [text, message] : cases) CHECK(fault(text) == message);
  CHECK(fault("[1e-999]") == "no error");  // the nearest double is 0
  CHECK(fault("[-0, 0.0, 1E5, 1e-5]") == "no error");
}

TEST_CASE("a zero byte does not end the text", "[core]") {
  using std::string_literals::operator""s;
  CHECK(fault("{}\0"s) ==
        "f:1:3: expected the end of the file after the document, found the "
        "control character U+0000");
  CHECK(fault("{}\0{"s) ==
        "f:1:3: expected the end of the file after the document, found the "
        "control character U+0000");
  CHECK(fault("[\"a\0\"]"s) == "f:1:4: the control character U+0000 must be escaped in a string");
  CHECK(fault("\0"s) == "f:1:1: expected a value, found the control character U+0000");
  CHECK(fault("[\"a\\u0000\"]") == "no error");
}

TEST_CASE("a string that is not well formed is refused", "[core]") {
  const std::string surrogate =
      ": expected a pair of \\u escapes (a high, then a low surrogate), found half of one";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"[\"abc", "f:1:2: expected '\"' at the end of this string, found the end of the file"},
      {"[\"abc\\", "f:1:2: expected '\"' at the end of this string, found the end of the file"},
      {"[\"abc\n\"]", "f:1:2: expected '\"' at the end of this string, found the end of the line"},
      {"[\"a\tb\"]", "f:1:4: the control character U+0009 must be escaped in a string"},
      {"[\"a\\qb\"]",
       "f:1:4: expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u after a backslash, found "
       "'qb'"},
      {"[\"\\u12g4\"]", "f:1:3: expected four hexadecimal digits after \\u"},
      {"[\"\\u12", "f:1:3: expected four hexadecimal digits after \\u"},
      {"[\"\\ud800\"]", "f:1:3" + surrogate},
      {"[\"\\ud800\\n\"]", "f:1:3" + surrogate},
      {"[\"\\ud800\\u0041\"]", "f:1:3" + surrogate},
      {"[\"\\udc00\"]", "f:1:3" + surrogate},
  };
  for (const auto& [text, message] : cases) CHECK(fault(text) == message);
}

TEST_CASE("bytes that are not UTF-8 are refused", "[core]") {
  CHECK(fault("[\"a\xFF\"]") == "f:1:4: the byte 0xFF is not valid UTF-8");
  CHECK(fault("[\"\x80\"]") == "f:1:3: the byte 0x80 is not valid UTF-8");
  CHECK(fault("[\"\xC0\xAF\"]") == "f:1:3: the byte 0xC0 is not valid UTF-8");          // overlong
  CHECK(fault("[\"\xE0\x80\x80\"]") == "f:1:3: the byte 0xE0 is not valid UTF-8");      // overlong
  CHECK(fault("[\"\xED\xA0\x80\"]") == "f:1:3: the byte 0xED is not valid UTF-8");      // surrogate
  CHECK(fault("[\"\xF4\x90\x80\x80\"]") == "f:1:3: the byte 0xF4 is not valid UTF-8");  // > 10FFFF
  CHECK(fault("[\"\xE2\x82\"]") == "f:1:3: the byte 0xE2 is not valid UTF-8");          // cut short
  CHECK(fault("\xFF") == "f:1:1: expected a value, found the byte 0xFF");
  CHECK(fault("[\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"]") == "no error");
  CHECK(fault("[\"\xC3\xA9\" x]") ==
        "f:1:6: expected ',' or ']' in the array opened at line 1, found 'x'");  // by code point
}

TEST_CASE("a key that is in one object twice is refused", "[core]") {
  CHECK(fault("{\"a\": 1,\n \"b\": 2,\n \"a\": 3}") ==
        "f:3:2: the key \"a\" is in this object twice, first at line 1");
  CHECK(fault("{\"x\": [{\"a\": 1, \"\\u0061\": 1}]}") ==
        "f:1:17: the key \"a\" is in this object twice, first at line 1");
  CHECK(fault("{\"a\": {\"a\": 1}, \"b\": {\"a\": 1}}") == "no error");
}

TEST_CASE("nesting is limited to 200 levels", "[core]") {
  CHECK(fault(nested(200, "[", "]")) == "no error");
  CHECK(fault(nested(201, "[", "]")) ==
        "f:1:201: arrays and objects are nested more than 200 levels deep");
  CHECK(fault(nested(200, "{\"a\":", "}")) == "no error");
  CHECK(fault(nested(201, "{\"a\":", "}")) ==
        "f:1:1001: arrays and objects are nested more than 200 levels deep");
  CHECK(fault(std::string(1000000, '[')) ==
        "f:1:201: arrays and objects are nested more than 200 levels deep");
}

TEST_CASE("a path is found in the text and shown as it is written in messages", "[core]") {
  const std::string text = "{\"a\": {\"x\": \"]}\\\"\"},\n \"b\\n\": [1, [], {\"c\": -1.5e3 }]}";
  const parplan::JsonPath path{std::string("b\n"), std::size_t{2}, std::string("c")};
  CHECK(parplan::path_text(path) == "$[\"b\\n\"][2].c");
  const parplan::JsonSpan span = parplan::locate(text, path);
  CHECK(text.substr(span.begin, span.end - span.begin) == "-1.5e3");
  CHECK(text.substr(span.key, 3) == "\"c\"");
  CHECK(parplan::position_of(text, span.key).line == 2);
  CHECK(parplan::path_text({}) == "$");
  CHECK(parplan::path_text({std::string(200, 'a')}) == "$." + std::string(80, 'a') + "...");
  CHECK(parplan::locate(" [1] ", {}).end == 4);
}

TEST_CASE("positions count lines and code points", "[core]") {
  const std::string text = "a\n\xC3\xA9z";
  CHECK(parplan::position_of(text, 0).line == 1);
  CHECK(parplan::position_of(text, 4).line == 2);
  CHECK(parplan::position_of(text, 4).column == 2);
  CHECK(parplan::position_of(text, 99).column == 3);
}
