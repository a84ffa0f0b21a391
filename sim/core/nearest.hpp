#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace parplan {

/// Fewest insertions, deletions, substitutions and swaps of neighbouring bytes that turn `a` into
/// `b`, no substring being edited twice (Damerau-Levenshtein, optimal string alignment). ASCII
/// letters compare without case, '-' and '_' are the same.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate a person who typed `word` most likely meant; nothing when none is close.
/// Close: at most a third of the longer word's length in edits (so never for words of two
/// letters), or `word` has three letters or more and begins exactly one candidate. Among equally
/// close candidates the first wins. The result points into `candidates`.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string_view> candidates);
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string> candidates);

/// "; did you mean 'heads'?" for the end of a message, or "" when nothing is close.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string_view> candidates);
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string> candidates);

/// "'a', 'b', 'c'", in the order given.
[[nodiscard]] std::string quoted_list(std::span<const std::string_view> words);

}  // namespace parplan
