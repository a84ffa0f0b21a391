#include "tools/printable_text.hpp"

#include <sstream>

#include "tests/catch2_compat.hpp"
#include "tools/text_table.hpp"

using parplan::tools::printable;
using parplan::tools::PrintableOutput;

TEST_CASE("what steers a terminal is written out", "[tools]") {
  CHECK(printable("two\x1B[31mcores") == "two\\x1B[31mcores");
  CHECK(printable("\r\b\x7F") == "\\x0D\\x08\\x7F");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\xC2\x9B"
                  "2J") == "\\u009B2J");
  CHECK(printable("line\n\ttab, caf\xC3\xA9, \xC2\xA9") == "line\n\ttab, caf\xC3\xA9, \xC2\xA9");
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
