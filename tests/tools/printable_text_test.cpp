#include "tools/printable_text.hpp"

#include <sstream>

#include "tests/catch2_compat.hpp"
#include "tools/text_table.hpp"

using parplan::tools::printable;
using parplan::tools::PrintableOutput;

TEST_CASE("what steers a terminal is written out", "[tools]") {
  CHECK(printable("two\x1B[31mcores") == "two\\x1B[31mcores");
  CHECK(printable("\r\b\x7F") == "\\x0D\\x08\\u007F");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xC2\x9B"
                  "2J") == "\\u009B2J");
  CHECK(printable("line\n\ttab, caf\xC3\xA9, \xC2\xA9") == "line\n\ttab, caf\xC3\xA9, \xC2\xA9");
  CHECK(printable("a\u202Eb\u2066c\u2069\u200F\u061C\u2028") ==
        "a\\u202Eb\\u2066c\\u2069\\u200F\\u061C\\u2028");
  CHECK(printable("\u202A\u2065\u206A\u2027\u202F") == "\\u202A\u2065\u206A\u2027\u202F");
  CHECK(printable("\xE2\x80") == "\xE2\x80");  // not whole, and not UTF-8
  CHECK(printable("\xC2") == "\xC2");
  CHECK(printable("\xE2"
                  "A\xAE") ==
        "\xE2"
        "A\xAE");
  CHECK(printable("\033[1m") == "\\x1B[1m");
}

TEST_CASE("a stream lets only bold on and off pass", "[tools]") {
  std::ostringstream out;
  const std::string many(200000, 'x');
  {
    const PrintableOutput filter(out);
    out << parplan::tools::kBold << "name \x1B"
        << "[2J" << parplan::tools::kPlain << '\n';
    out << '\xC2' << '\x9B';
    out << many;
  }
  CHECK(out.str() == "\033[1mname \\x1B[2J\033[0m\n\\u009B" + many);
  std::ostringstream reordered;
  {
    const PrintableOutput filter(reordered);
    // Wherever the 64 KiB that are passed on end, the three bytes stay together.
    for (int i = 0; i < 200; ++i) reordered << std::string(1000 + i % 3, 'x') << "\u202E";
  }
  CHECK(reordered.str().find('\xE2') == std::string::npos);
  out << '\r';  // after it the stream is as before
  CHECK(out.str().back() == '\r');
}

TEST_CASE("a stream that cannot be written to says so", "[tools]") {
  std::ostringstream out;
  struct Full : std::streambuf {
  } full;
  std::ostream closed(&full);
  const PrintableOutput filter(closed);
  closed << "lost";
  CHECK_FALSE(closed.flush());
}
