#include "sim/core/nearest.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch2_compat.hpp"

using parplan::edit_distance;
using parplan::nearest;

namespace {

constexpr std::array<std::string_view, 6> kKeys{"heads", "layers", "hidden",
                                                "tp",    "pp",     "latency_s"};

std::string guess(std::string_view word) {
  return std::string(nearest(word, kKeys).value_or("none"));
}

}  // namespace

TEST_CASE("the edit distance counts insertions, deletions, substitutions and swaps", "[core]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);  // k>s, e>i, +g
  CHECK(edit_distance("layers", "layres") == 1);   // one swap
  CHECK(edit_distance("ca", "abc") == 3);          // optimal string alignment; unrestricted has 2
  CHECK(edit_distance("Zb_H1", "zb-h1") == 0);     // case and '_' do not count
}

TEST_CASE("the nearest word is the one that was meant", "[core]") {
  CHECK(guess("head") == "heads");
  CHECK(guess("Heads") == "heads");
  CHECK(guess("ehads") == "heads");
  CHECK(guess("lyaers") == "layers");
  CHECK(guess("hiddn") == "hidden");
  CHECK(guess("latency") == "latency_s");  // 2 edits, 9 / 3 = 3 allowed
  CHECK(guess("lat") == "latency_s");      // 6 edits, but it begins this one alone
}

TEST_CASE("what is not close gets no guess", "[core]") {
  CHECK(guess("xp") == "none");  // words of two letters are all alike
  CHECK(guess("la") == "none");  // too short for a beginning
  CHECK(guess("bandwidth") == "none");
  CHECK(guess("") == "none");
  CHECK(guess(std::string(1000000, 'x')) == "none");
  CHECK_FALSE(nearest("heads", std::span<const std::string_view>{}));
  constexpr std::array<std::string_view, 2> kPresets{"llama-3-8b-instruct", "llama-3-70b-instruct"};
  CHECK_FALSE(nearest("llama", kPresets));  // begins both
}

TEST_CASE("among equally near words the first wins", "[core]") {
  const std::vector<std::string> words{"bat", "cat", "hat"};
  CHECK(nearest("rat", words) == "bat");
  CHECK(nearest("cat", words) == "cat");
}

TEST_CASE("hints end a message", "[core]") {
  CHECK(parplan::did_you_mean("head", kKeys) == "; did you mean 'heads'?");
  CHECK(parplan::did_you_mean("bandwidth", kKeys).empty());
  CHECK(parplan::did_you_mean("rat", std::vector<std::string>{"cat"}) == "; did you mean 'cat'?");
  constexpr std::array<std::string_view, 2> kTwo{"a", "b"};
  CHECK(parplan::quoted_list(kTwo) == "'a', 'b'");
  CHECK(parplan::quoted_list({}).empty());
}
