#include "tools/launch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sim/core/error.hpp"

namespace parplan::tools {
namespace {

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::string folder = rest.substr(0, colon);
    if (!folder.empty() && access((folder + "/" + program).c_str(), X_OK) == 0) return true;
    if (colon == std::string::npos) break;
    rest.erase(0, colon + 1);
  }
  return false;
}

[[noreturn]] void become(std::vector<std::string> command) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const char* reason = std::strerror(errno);
  static_cast<void>(!write(STDERR_FILENO, reason, std::strlen(reason)));
  _exit(127);
}

}  // namespace

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

int launch_ranks(int ranks, const std::vector<std::string>& arguments) {
  if (!on_path("mpirun")) {
    throw InputError(
        "mpirun is not installed; install Open MPI (Debian: openmpi-bin), or start the "
        "ranks with the cluster's own launcher: srun parplan execute ...");
  }
  std::vector<std::string> command{"mpirun",    "-n",   std::to_string(ranks),
                                   "--bind-to", "none", own_program()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  // The terminal sends an interrupt to the whole group: mpirun passes it on and ends in its own
  // time.
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &before);
  const pid_t child = fork();
  if (child < 0) throw HwError(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    sigaction(SIGINT, &before, nullptr);
    become(std::move(command));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw HwError(std::string("waitpid: ") + std::strerror(errno));
  }
  sigaction(SIGINT, &before, nullptr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace parplan::tools
