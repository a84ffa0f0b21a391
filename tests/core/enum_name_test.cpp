#include "sim/core/enum_name.hpp"

#include <array>
#include <string_view>

#include "tests/catch2_compat.hpp"

namespace {

enum class Fruit { kApple, kPear };
constexpr std::array kFruitNames{parplan::EnumName<Fruit>{"apple", Fruit::kApple},
                                 parplan::EnumName<Fruit>{"pear", Fruit::kPear}};

enum class Size { kSmall, kLarge };
constexpr std::string_view name_of(Size size) { return size == Size::kSmall ? "small" : "large"; }

}  // namespace

TEST_CASE("a table names the values of an enumeration in both directions", "[core]") {
  STATIC_REQUIRE(parplan::name_of(Fruit::kPear, kFruitNames) == "pear");
  STATIC_REQUIRE(parplan::name_of(static_cast<Fruit>(7), kFruitNames).empty());
  CHECK(parplan::value_of<Fruit>("apple", kFruitNames) == Fruit::kApple);
  CHECK_FALSE(parplan::value_of<Fruit>("Apple", kFruitNames));
}

TEST_CASE("a table is made of an enumeration that names itself", "[core]") {
  constexpr auto kNames = parplan::enum_names(Size::kSmall, Size::kLarge);
  STATIC_REQUIRE(kNames.size() == 2);
  CHECK(parplan::value_of<Size>("large", kNames) == Size::kLarge);
  CHECK(parplan::name_of(Size::kSmall, kNames) == "small");
}
