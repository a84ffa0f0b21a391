#include "tools/launch/launchers_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace parplan::tools {
namespace {

constexpr const char* kVariable = "PARPLAN_OUTPUT";  ///< "/proc/77/fd/5=pipe:[1234]"

/// What an open descriptor is, as "pipe:[1234]"; no two pipes of a host have the same.
std::string identity(const std::string& descriptor) {
  std::error_code gone;
  return std::filesystem::read_symlink(descriptor, gone).string();
}

}  // namespace

void offer_launchers_output(int descriptor) {
  const std::string path =
      "/proc/" + std::to_string(getppid()) + "/fd/" + std::to_string(descriptor);
  setenv(kVariable, (path + "=" + identity(path)).c_str(), 1);
}

void take_launchers_output() {
  const char* offered = std::getenv(kVariable);
  if (offered == nullptr) return;
  const std::string text = offered;
  unsetenv(kVariable);
  const std::size_t end = text.find('=');
  if (end == std::string::npos) return;
  const std::string path = text.substr(0, end);
  const std::string pipe = text.substr(end + 1);
  if (!pipe.starts_with("pipe:") || identity(path) != pipe) return;
  const int output = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (output < 0) return;
  dup2(output, STDOUT_FILENO);
  close(output);
  static_cast<void>(!write(STDOUT_FILENO, &kRankHasStarted, 1));
}

}  // namespace parplan::tools
