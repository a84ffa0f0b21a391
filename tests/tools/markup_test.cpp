#include "tools/report/markup.hpp"

#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::tools;

TEST_CASE("text is escaped for elements and quoted attributes", "[tools]") {
  CHECK(escaped("a<b>&\"c'") == "a&lt;b&gt;&amp;&quot;c&#39;");
  CHECK(escaped("\xC2\xB5s \xE2\x80\x93 \xF0\x9F\x98\x80") ==
        "\xC2\xB5s \xE2\x80\x93 \xF0\x9F\x98\x80");
}

TEST_CASE("bytes that are no UTF-8 become the replacement character", "[tools]") {
  const std::string replacement = "\xEF\xBF\xBD";
  CHECK(escaped("\x80") == replacement);
  CHECK(escaped("a\xC3") == "a" + replacement);               // cut short
  CHECK(escaped("\xC0\x80") == replacement + replacement);    // overlong NUL
  CHECK(escaped("\xED\xA0\x80").find(replacement) == 0);      // surrogate
  CHECK(escaped("\xF4\x90\x80\x80").find(replacement) == 0);  // past U+10FFFF
  CHECK(escaped(std::string("\x00\x1B", 2)) == replacement + replacement);
  CHECK(well_formed("a<\xFF") == "a<" + replacement);
}

TEST_CASE("strings for scripts cannot end the script", "[tools]") {
  CHECK(script_string("</script>") == "\"\\u003c/script\\u003e\"");
  CHECK(script_string("a\"\\\n&'") == "\"a\\u0022\\u005c\\u000a\\u0026\\u0027\"");
  CHECK(script_string("\xE2\x80\xA8\xE2\x80\xA9") == "\"\\u2028\\u2029\"");
}

TEST_CASE("numbers are short and never scientific", "[tools]") {
  CHECK(number_text(1.5) == "1.5");
  CHECK(number_text(2.0) == "2");
  CHECK(number_text(-0.001) == "0");
  CHECK(number_text(1e20, 1) == "100000000000000000000");
  CHECK(number_text(100, 0) == "100");
}

TEST_CASE("times carry a sign on demand", "[tools]") {
  CHECK(time_text(Seconds{12.34e-6}) == "12.3 \xC2\xB5s");
  CHECK(time_text(Seconds{3e-3}, true) == "+3.00 ms");
  CHECK(time_text(Seconds{-3e-3}, true) ==
        "\xE2\x88\x92"
        "3.00 ms");
}

TEST_CASE("errors are good within 10 % and poor beyond 30 %", "[tools]") {
  CHECK(error_class(-0.10) == "good");
  CHECK(error_class(0.11) == "fair");
  CHECK(error_class(-0.31) == "poor");
}

TEST_CASE("ticks are round and stay within their range", "[tools]") {
  CHECK(nice_ticks(0.0, 10.0, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(nice_ticks(0.9, 4.2, 4) == std::vector<double>{1, 2, 3, 4});
  CHECK(nice_ticks(-3.0, 3.0, 3) == std::vector<double>{-2, 0, 2});
  CHECK(nice_ticks(7.0, 7.0, 5) == std::vector<double>{7});
}

TEST_CASE("cells sort by value, not by text", "[tools]") {
  const std::string table = sortable_table("x", {{"name", false}, {"time"}},
                                           {{Cell::text("a&b"), Cell::time(Seconds{2e-3})}});
  CHECK(table.find("<td class=\"text\" data-k=\"a&amp;b\">a&amp;b</td>") != std::string::npos);
  CHECK(table.find("<td data-k=\"0.002\">2.00 ms</td>") != std::string::npos);
}
