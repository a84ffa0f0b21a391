#include "tools/launch/processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace parplan::tools {

namespace {

std::filesystem::path folder_of(pid_t id) {
  return std::filesystem::path("/proc") / std::to_string(id);
}

void add_children(pid_t parent, std::vector<Process>& found) {
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(folder_of(parent) / "task", gone)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child = 0; list >> child;) found.push_back(process(child));
  }
}

}  // namespace

Process process(pid_t id) {
  std::ifstream file(folder_of(id) / "stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  // "77 (name) S ...": the name may hold anything, also ')'.
  const std::size_t name_begin = line.find('(');
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos || name_end < name_begin || name_end + 2 >= line.size()) {
    return {id, '?', ""};
  }
  return {id, line[name_end + 2], line.substr(name_begin + 1, name_end - name_begin - 1)};
}

std::vector<Process> processes_below(pid_t parent) {
  std::vector<Process> found;
  add_children(parent, found);
  for (std::size_t i = 0; i < found.size(); ++i) add_children(pid_t{found[i].id}, found);
  return found;
}

std::vector<Process> ranks_below(pid_t parent) {
  const std::string own_name = process(getpid()).name;
  std::vector<Process> ranks = processes_below(parent);
  std::erase_if(ranks, [&](const Process& process) { return process.name != own_name; });
  return ranks;
}

}  // namespace parplan::tools
