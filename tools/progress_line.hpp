#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace parplan::tools {

/// Set in the environment of ranks whose launcher shows their progress.
inline constexpr const char* kProgressVariable = "PARPLAN_PROGRESS";
/// How a line of theirs on standard error begins that is progress; without more it has ended.
inline constexpr std::string_view kProgressMark = "parplan-progress:";

/// How far long work is: a line on standard error that is rewritten in place, at most ten times a
/// second, and gone with the object. Silent where that is no terminal and no launcher's.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const std::string& text);
  /// Takes the line away until the next update.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Reader : std::uint8_t { kNobody, kTerminal, kLauncher };
  Reader reader_;
  bool shown_ = false;
  std::optional<Clock::time_point> last_;  ///< when it was rewritten
};

}  // namespace parplan::tools
