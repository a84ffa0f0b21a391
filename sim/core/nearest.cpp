#include "sim/core/nearest.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace parplan {
namespace {

constexpr std::size_t kShortestPrefix = 3;

char fold(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '_' ? '-' : c;
}

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(),
                    [](char a, char b) { return fold(a) == fold(b); });
}

/// Nobody mistypes longer ones, and the table has the square of it.
constexpr std::size_t kLongestWord = 256;

std::vector<std::string_view> views(std::span<const std::string> words) {
  return {words.begin(), words.end()};
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the table whose cell (i, j) is the distance of the first i bytes of a
  // and the first j of b.
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = fold(a[i - 1]) == fold(b[j - 1]);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (same ? 0U : 1U)});
      if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  std::optional<std::string_view> completion;
  std::size_t completions = 0;
  for (const std::string_view candidate : candidates) {
    if (word.size() >= kShortestPrefix && begins_with(candidate, word)) {
      if (completions++ == 0) completion = candidate;
    }
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (longer > kLongestWord) continue;
    const std::size_t limit = longer / 3;
    // The distance is at least the difference in length; this spares the table for huge words.
    if (longer - shorter > limit) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance <= limit && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (best) return best;
  return completions == 1 ? completion : std::nullopt;
}

std::optional<std::string_view> nearest(std::string_view word,
                                        std::span<const std::string> candidates) {
  return nearest(word, views(candidates));
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const auto guess = nearest(word, candidates);
  return guess ? "; did you mean '" + std::string(*guess) + "'?" : "";
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  return did_you_mean(word, views(candidates));
}

std::string quoted_list(std::span<const std::string_view> words) {
  std::string list;
  for (const std::string_view word : words) {
    if (!list.empty()) list += ", ";
    list.append("'").append(word).append("'");
  }
  return list;
}

}  // namespace parplan
