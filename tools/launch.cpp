#include "tools/launch.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

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

/// The processes that `parent` started and that live, whichever of its threads started them.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  const std::filesystem::path tasks = "/proc/" + std::to_string(parent) + "/task";
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

/// The signals that a job's launcher takes one by one instead of being interrupted by them.
sigset_t launcher_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

[[noreturn]] void become(std::vector<std::string> command, const sigset_t& mask) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // the ranks do not outlive who started them
  setpgid(0, 0);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
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
  const sigset_t signals = launcher_signals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t child = fork();
  if (child < 0) throw HwError(std::string("fork: ") + std::strerror(errno));
  if (child == 0) become(std::move(command), before);
  setpgid(child, child);  // also done by the child; whoever is first
  int status = 0;
  int passed_on = 0;
  for (pid_t ended = 0; ended != child; ended = waitpid(child, &status, WNOHANG)) {
    if (ended < 0) throw HwError(std::string("waitpid: ") + std::strerror(errno));
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal != SIGINT && signal != SIGTERM) continue;
    // First the ranks, which finish their step and write what they have. mpirun itself would give
    // them a second and then kill them; that is for who asks twice.
    const std::vector<pid_t> started = passed_on == 0 ? children_of(child) : std::vector<pid_t>{};
    for (const pid_t rank : started) kill(rank, signal);
    if (started.empty()) kill(child, signal);
    passed_on = signal;
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (passed_on != 0) return 128 + passed_on;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace parplan::tools
