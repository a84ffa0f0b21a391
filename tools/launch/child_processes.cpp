#include "tools/launch/child_processes.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace parplan::tools {

namespace {

std::filesystem::path folder_of(pid_t process) {
  return std::filesystem::path("/proc") / std::to_string(process);
}

}  // namespace

char state_of(pid_t process) {
  std::ifstream file(folder_of(process) / "stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  // "77 (name) S ...": the name may hold anything, also ')'.
  const std::size_t name_end = line.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '?' : line[name_end + 2];
}

std::vector<ChildProcess> children_of(pid_t parent) {
  std::vector<ChildProcess> children;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(folder_of(parent) / "task", gone)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back({child, state_of(child)});
  }
  return children;
}

}  // namespace parplan::tools
