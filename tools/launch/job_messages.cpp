#include "tools/launch/job_messages.hpp"

#include <algorithm>
#include <array>
#include <regex>
#include <utility>

#include "tools/progress_line.hpp"

namespace parplan::tools {
namespace {

bool is_dashes(const std::string& line) {
  constexpr std::size_t kLeast = 20;
  return line.size() >= kLeast && line.find_first_not_of('-') == std::string::npos;
}

/// Words with one space between them: boxes are wrapped anywhere.
std::string unwrapped(const std::string& text) {
  std::string words;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) words += c;
    if (space && !words.empty() && words.back() != ' ') words += ' ';
  }
  return words;
}

/// What Open MPI 4 says when a rank has ended with a code, or was told to.
bool tells_only_the_end(const std::string& words) {
  constexpr std::array kPhrases = {"MPI_ABORT was invoked on rank", "returned a non-zero exit code",
                                   "processes exited with non-zero status", "exiting improperly",
                                   "exiting without calling \"finalize\""};
  return std::any_of(kPhrases.begin(), kPhrases.end(),
                     [&](const char* phrase) { return words.find(phrase) != std::string::npos; });
}

/// "mpirun noticed that process rank 1 with PID 77 on node a exited on signal 9 (Killed)."
std::optional<DeadRank> parse_dead_rank(const std::string& words) {
  static const std::regex pattern("process rank ([0-9]{1,7}) .*exited on signal ([0-9]{1,3})");
  std::smatch found;
  if (!std::regex_search(words, found, pattern)) return std::nullopt;
  return DeadRank{std::stoi(found[1]), std::stoi(found[2])};
}

/// "[host:77] 1 more process has sent help message ...": how many boxes were left out, or what the
/// launcher stumbled over while it ended the job, or that a rank cannot read a dead one's memory.
bool is_chatter(const std::string& line) {
  if (line.starts_with("mpirun: Forwarding signal ")) return true;
  constexpr std::array kPhrases = {" sent help message ", "orte_base_help_aggregate",
                                   "ORTE_ERROR_LOG", "Read -1, expected "};
  return line.starts_with('[') &&
         std::any_of(kPhrases.begin(), kPhrases.end(),
                     [&](const char* phrase) { return line.find(phrase) != std::string::npos; });
}

/// Where the reason begins in "parplan: rank 2: reason"; 0 when that is another line.
std::size_t reason_begin(const std::string& line) {
  constexpr std::string_view kRank = "parplan: rank ";
  if (!line.starts_with(kRank)) return 0;
  const std::size_t end = line.find_first_not_of("0123456789", kRank.size());
  if (end == std::string::npos || end == kRank.size()) return 0;
  return line[end] == ':' || line[end] == ' ' ? end : 0;
}

}  // namespace

void JobMessages::add(std::string_view bytes) {
  for (const char c : bytes) {
    partial_ += c;
    if (c == '\n') take_line(std::exchange(partial_, {}));
  }
}

void JobMessages::take_line(const std::string& line) {
  const std::string text = line.substr(0, line.find_last_not_of("\r\n") + 1);
  if (text.starts_with(kProgressMark)) {
    const std::size_t begin = text.find_first_not_of(' ', kProgressMark.size());
    if (progress_) progress_(begin == std::string::npos ? "" : text.substr(begin));
  } else if (is_dashes(text)) {
    if (box_) {
      *box_ += line;
      close_box();
    } else {
      box_ = line;
    }
  } else if (reason_begin(text) != 0) {
    // Also within a box: the launcher writes a box at once, but a rank may write between.
    explained_ = true;
    if (reasons_.insert(text.substr(reason_begin(text))).second) sink_(line);
  } else if (box_) {
    *box_ += line;
  } else if (is_chatter(text)) {
    held_ += line;
  } else {
    pass_on(line);
  }
}

void JobMessages::close_box() {
  const std::string box = *std::exchange(box_, std::nullopt);
  const std::string words = unwrapped(box);
  const std::optional<DeadRank> dead = parse_dead_rank(words);
  if (dead && !dead_rank_) dead_rank_ = dead;
  if (dead || tells_only_the_end(words)) {
    held_ += box;
  } else {
    sink_(box);
  }
}

void JobMessages::pass_on(const std::string& line) {
  // Lines of libraries begin with "[host:process]".
  explained_ =
      explained_ || (line.find_first_not_of(" \r\n") != std::string::npos && line[0] != '[');
  sink_(line);
}

bool JobMessages::finish(bool unexplained) {
  if (!partial_.empty()) take_line(std::exchange(partial_, {}) + "\n");
  if (box_) sink_(*std::exchange(box_, std::nullopt));
  if (unexplained && !explained_ && !held_.empty()) sink_(held_);
  held_.clear();
  return explained_;
}

}  // namespace parplan::tools
