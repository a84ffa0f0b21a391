#include "tools/report/graphviz.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

namespace parplan::tools {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Waits for the child; one that outlives the limit is killed. Whether it ended well.
bool ended_well(pid_t child, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string content_of(std::FILE* file) {
  std::rewind(file);
  std::string content;
  std::array<char, 65536> block{};
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file)) {
    content.append(block.data(), got);
  }
  return content;
}

void remove_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    const std::size_t end = text.find(to, at + from.size());
    if (end == std::string::npos) return;
    text.erase(at, end + to.size() - at);
  }
}

}  // namespace

std::optional<std::string> run_dot(const std::filesystem::path& dot, const std::string& text,
                                   std::chrono::milliseconds limit) {
  if (dot.empty()) return std::nullopt;
  // Unlinked files instead of pipes: neither side can block on the other or die of SIGPIPE.
  const File in(std::tmpfile());
  const File out(std::tmpfile());
  if (!in || !out) return std::nullopt;
  if (std::fwrite(text.data(), 1, text.size(), in.get()) != text.size()) return std::nullopt;
  std::rewind(in.get());

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string program = dot.string();
  std::string format = "-Tsvg";
  const std::array<char*, 3> arguments{program.data(), format.data(), nullptr};
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0 || !ended_well(child, limit)) return std::nullopt;

  std::string svg = content_of(out.get());
  const std::size_t begin = svg.find("<svg");
  const std::size_t end = svg.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  svg = svg.substr(begin, end + 6 - begin);
  remove_all(svg, "<!--", "-->");
  remove_all(svg, " xmlns=\"", "\"");
  remove_all(svg, " xmlns:xlink=\"", "\"");
  return svg;
}

}  // namespace parplan::tools
