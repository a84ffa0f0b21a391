#include "tools/progress_line.hpp"

#include <unistd.h>

#include <cstdlib>

#include "tools/printable_text.hpp"

namespace parplan::tools {
namespace {

constexpr std::chrono::milliseconds kBetweenUpdates{100};

/// Past the stream, which lets no names move the cursor; a line that is lost is no loss.
void write_raw(const std::string& text) {
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
}

}  // namespace

ProgressLine::ProgressLine()
    : reader_(std::getenv(kProgressVariable) != nullptr ? Reader::kLauncher
              : isatty(STDERR_FILENO) != 0              ? Reader::kTerminal
                                                        : Reader::kNobody) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(const std::string& text) {
  if (reader_ == Reader::kNobody) return;
  const Clock::time_point now = Clock::now();
  if (last_ && now - *last_ < kBetweenUpdates) return;
  last_ = now;
  shown_ = true;
  const std::string line = printable(text);
  write_raw(reader_ == Reader::kTerminal ? "\r\033[K" + line
                                         : std::string(kProgressMark) + " " + line + "\n");
}

void ProgressLine::clear() {
  if (!shown_) return;
  shown_ = false;
  write_raw(reader_ == Reader::kTerminal ? "\r\033[K" : std::string(kProgressMark) + "\n");
}

}  // namespace parplan::tools
