#include "tools/launch.hpp"

#include <fcntl.h>
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

volatile std::sig_atomic_t g_signal = 0;

extern "C" void note_signal(int signal) { g_signal = signal; }

[[noreturn]] void become(std::vector<std::string> command) {
  setpgid(0, 0);
  // A process in the background that reads the terminal is stopped; ranks read nothing.
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
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
  // The job has a process group of its own, so that it gets each signal once: from here, wherever
  // the signal came from.
  g_signal = 0;
  struct sigaction note {};
  note.sa_handler = note_signal;
  struct sigaction before[2] = {};
  sigaction(SIGINT, &note, &before[0]);
  sigaction(SIGTERM, &note, &before[1]);
  const pid_t child = fork();
  if (child < 0) throw HwError(std::string("fork: ") + std::strerror(errno));
  if (child == 0) become(std::move(command));
  setpgid(child, child);  // also done by the child; whoever is first
  int status = 0;
  int passed_on = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw HwError(std::string("waitpid: ") + std::strerror(errno));
    if (g_signal != 0 && passed_on == 0) {
      passed_on = g_signal;
      kill(child, passed_on);
    }
  }
  sigaction(SIGINT, &before[0], nullptr);
  sigaction(SIGTERM, &before[1], nullptr);
  if (passed_on != 0) return 128 + passed_on;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace parplan::tools
