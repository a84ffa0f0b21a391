#include "sim/core/layout.hpp"

#include <limits>
#include <string>

#include "sim/core/error.hpp"
#include "sim/core/model_presets.hpp"
#include "sim/core/plan.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

TEST_CASE("layout text survives a round trip", "[core]") {
  for (const std::string text :
       {"single", "dp=2,tp=4", "pp=2,schedule=gpipe,microbatches=8,stages=5+6",
        "dp=2,mp=2,devices=0+0+1", "dp=3,microbatches=4", "dp=3,schedule=gpipe,microbatches=4"}) {
    CHECK(to_string(parse_layout(text)) == text);
  }
}

TEST_CASE("spaces beside the commas of a layout are no part of it", "[core]") {
  CHECK(parse_layout(" dp=2, tp=4 ") == parse_layout("dp=2,tp=4"));
  CHECK(parse_layout(" single ") == parse_layout("single"));
  CHECK_THROWS_WITH(parse_layout("dp = 2"), ContainsSubstring("unknown item 'dp '"));
}

TEST_CASE("a text that is no layout is refused with what is wrong in it", "[core]") {
  CHECK_THROWS_WITH(parse_layout("qq=2"), ContainsSubstring("unknown item 'qq'"));
  CHECK_THROWS_WITH(parse_layout("dp=2,dp=2"), ContainsSubstring("'dp' is given twice"));
  CHECK_THROWS_WITH(parse_layout("dp=two"), ContainsSubstring("'dp=two' needs an integer"));
  CHECK_THROWS_WITH(parse_layout("dp=2,"), ContainsSubstring("'' has no '='"));
  CHECK_THROWS_WITH(parse_layout(""), ContainsSubstring("'' has no '='"));
  CHECK_THROWS_WITH(parse_layout("schedule=zigzag"), ContainsSubstring("unknown schedule"));
}

TEST_CASE("a broken layout is refused with the reason and a value that works", "[core]") {
  const Model model = *make_preset("gpt2-tiny");  // 8 layers, 4 heads
  Workload w;
  w.global_batch = 8;
  w.sequence = 8;
  const auto message = [&](const std::string& layout) -> std::string {
    try {
      lower(model, w, parse_layout(layout), Stack{});
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK(message("dp=3").find("does not divide by dp=3 (try dp=2 or 4)") != std::string::npos);
  CHECK(message("tp=3").find("do not divide by tp=3") != std::string::npos);
  CHECK(message("pp=9").find("9 stages or devices for 8 layers") != std::string::npos);
  CHECK(message("pp=2,stages=1+1").find("places 2 layers, the model has 8") != std::string::npos);
  CHECK(message("pp=2,mp=2").find("exclude each other") != std::string::npos);
  CHECK(message("mp=2,microbatches=2").find("needs a pipeline") != std::string::npos);
  CHECK(message("pp=2,microbatches=5").find("microbatches=4 or 8") != std::string::npos);
}

TEST_CASE("a tp that does not divide the model is one sentence with those that do", "[core]") {
  const Model model = *make_preset("llama-3.1-8b");  // 32 heads, 8 of keys and values
  Workload w;
  w.global_batch = 8;
  w.sequence = 128;
  const auto refusals = check_layout(model, w, parse_layout("tp=5"));
  REQUIRE(refusals.size() == 1);
  CHECK_THAT(refusals[0].reason, ContainsSubstring("do not divide by tp=5; op "));
  CHECK_THAT(refusals[0].reason, ContainsSubstring(" more"));
  CHECK(refusals[0].reason.size() < 250);
  CHECK(refusals[0].suggestion == "tp=1, 2, 4 or 8");
  for (const char* tp : {"tp=1", "tp=2", "tp=4", "tp=8"}) {
    CHECK(check_layout(model, w, parse_layout(tp)).empty());
  }
  CHECK(check_layout(model, w, parse_layout("tp=16")).size() == 1);
}

TEST_CASE("a layout's ranks are counted without wrapping", "[core]") {
  Layout layout;
  layout.dp = layout.tp = layout.pp = kMostRanks;
  CHECK(layout.ranks() == std::numeric_limits<int>::max());
  CHECK_THROWS_WITH(parse_layout("dp=1048576,tp=2"), ContainsSubstring("more than the 1048576"));
  CHECK_THROWS_WITH(parse_layout("dp=2147483647"), ContainsSubstring("between 1 and 1048576"));
  CHECK(parse_layout("dp=131072,tp=8").ranks() == kMostRanks);
}

TEST_CASE("devices= belong to mp", "[core]") {
  Workload w;
  w.global_batch = 4;
  w.sequence = 8;
  const Model model = *make_preset("gpt2-tiny");
  const auto refusals = check_layout(model, w, parse_layout("pp=2,devices=0+0+0+0+1+1+1"));
  REQUIRE(refusals.size() == 1);
  CHECK_THAT(refusals[0].reason, ContainsSubstring("places layers for mp"));
  CHECK_THAT(refusals[0].suggestion, ContainsSubstring("stages="));
}
