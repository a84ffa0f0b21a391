#pragma once

// The same test source builds with Catch2 2.13 (Debian 12) and 3.
#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>

#include <string>
// NOLINTNEXTLINE(readability-identifier-naming): the name it has in Catch2 3.
inline auto ContainsSubstring(const std::string& text) { return Catch::Contains(text); }
#endif
