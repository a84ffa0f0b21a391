#include "tools/cli/options.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <algorithm>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;
using namespace parplan::tools;

namespace {

struct Given {
  std::uint64_t seed = 1;
  std::optional<int> ranks;
  double rate = 0.5;
  std::optional<double> dropout;
  std::string word = "adam";
  std::string path = "none";
};

/// What `arguments` set; throws what they are refused with.
Given parsed(std::vector<std::string> arguments) {
  Given g;
  CLI::App app;
  add_integer(app, "--seed", g.seed, {0, 100}, "");
  add_integer(app, "-r,--ranks", g.ranks, {1, 8}, "");
  add_number(app, "--rate", g.rate, NumberRange::above(0), "");
  add_number(app, "--dropout", g.dropout, NumberRange::between(0, 0.9), "");
  add_choice(app, "--optimizer", g.word, {"adam", "adamw"}, "");
  add_text(app, "-o,--output", g.path, "");
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return g;
}

std::string refusal(std::vector<std::string> arguments) {
  try {
    static_cast<void>(parsed(std::move(arguments)));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("options take what is in their range, all of it", "[tools]") {
  const Given g = parsed({"--seed", "100", "-r", "8", "--rate", "1e-3", "--dropout", "0",
                          "--optimizer", "adamw", "-o", "a b"});
  CHECK(g.seed == 100);
  CHECK(g.ranks == 8);
  CHECK(g.rate == 1e-3);
  CHECK(g.dropout == 0.0);
  CHECK(g.word == "adamw");
  CHECK(g.path == "a b");
  CHECK(parsed({}).seed == 1);
}

TEST_CASE("a refused option says its name, what was given, what is allowed", "[tools]") {
  const std::string seed = "expected an integer between 0 and 100";
  CHECK(refusal({"--seed", "-1"}) == "--seed '-1': " + seed);
  for (const char* text : {"101", "1e1", "1e20", "99999999999999999999", "7x", "0x7", "", "nan"}) {
    CHECK(refusal({"--seed", text}) == "--seed '" + std::string(text) + "': " + seed);
  }
  CHECK(refusal({"-r", "0"}) == "--ranks '0': expected an integer between 1 and 8");
  for (const char* text : {"nan", "inf", "1e999", "0", "-1", "1,5", ""}) {
    CHECK(refusal({"--rate", text}) == "--rate '" + std::string(text) + "': expected a number > 0");
  }
  CHECK_THAT(refusal({"--dropout", "1"}), ContainsSubstring("between 0 and 0.9"));
  CHECK_THAT(refusal({"--optimizer", "adamv"}), ContainsSubstring("one of adam, adamw"));
  CHECK(refusal({"--seed", std::string(100'000, '9')}) ==
        "--seed '" + std::string(80, '9') + "...': " + seed);
  CHECK(refusal({"-o", ""}) == "--output '': expected text that is not empty");
}
