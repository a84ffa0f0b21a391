#include "tools/launch/launch_ranks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "sim/core/error.hpp"
#include "tools/interrupts.hpp"
#include "tools/launch/job_messages.hpp"
#include "tools/launch/launchers_output.hpp"
#include "tools/launch/mpirun_watch.hpp"
#include "tools/launch/pipe.hpp"
#include "tools/launch/processes.hpp"
#include "tools/launch/signal_queue.hpp"
#include "tools/progress_line.hpp"

namespace parplan::tools {
namespace {

/// Empty when there is none.
std::string path_of(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::string folder = rest.substr(0, colon);
    const std::string file = folder + "/" + program;
    std::error_code none;
    if (!folder.empty() && std::filesystem::is_regular_file(file, none) &&
        access(file.c_str(), X_OK) == 0) {
      return file;
    }
    if (colon == std::string::npos) break;
    rest.erase(0, colon + 1);
  }
  return "";
}

/// Whether people look on. Then ranks tell how far they are.
bool shows_progress() { return isatty(STDERR_FILENO) != 0 && isatty(STDOUT_FILENO) != 0; }

/// `output`, `messages`: for standard output and standard error.
[[noreturn]] void become(std::vector<std::string> command, const sigset_t& mask, int output,
                         int messages) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // the ranks do not outlive who started them
  setpgid(0, 0);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  // A process in the background that reads the terminal is stopped; ranks read nothing.
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (shows_progress()) setenv(kProgressVariable, "1", 1);
  offer_launchers_output(output);
  dup2(output, STDOUT_FILENO);
  dup2(messages, STDERR_FILENO);
  for (const int signal : interrupting_signals()) std::signal(signal, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
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

/// mpirun with the ranks below it.
class Job {
 public:
  /// `mpirun`: the path of the program that `command` names.
  Job(std::string mpirun, std::vector<std::string> command)
      : mpirun_(std::move(mpirun)),
        messages_([this](std::string_view text) { say(text); },
                  [this](std::string_view text) { show(text); }) {
    Pipe errors;
    pid_ = checked(fork(), "fork");
    // The job has a process group of its own, so that it gets each signal once: from here, wherever
    // the signal came from.
    if (pid_ == 0) {
      become(std::move(command), queue_.mask_before(), output_.write_end->get(),
             errors.write_end->get());
    }
    errors_ = std::move(errors.read_end);
    watch_.emplace(pid_);
    setpgid(pid_, pid_);  // also done by the child; whoever is first
  }

  int wait() {
    int status = 0;
    for (pid_t ended = 0; ended != pid_;) {
      std::array<pollfd, 3> sources{pollfd{queue_.descriptor(), POLLIN, 0},
                                    pollfd{errors_->get(), POLLIN, 0},
                                    pollfd{output_.read_end->get(), POLLIN, 0}};
      if (poll(sources.data(), sources.size(), kBetweenLooks.count()) < 0 && errno != EINTR) {
        checked(-1, "poll");
      }
      read_all();
      while (const int signal = queue_.take()) {
        if (signal != SIGCHLD) pass_on(signal);
      }
      ended = checked(waitpid(pid_, &status, WNOHANG), "waitpid");
      if (ended != pid_ && Clock::now() >= next_look_) look_after_mpirun();
    }
    read_all();
    return exit_code(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// Longer than mpirun needs to end the ranks when it is asked to.
  static constexpr std::chrono::seconds kMpirunEndsRanks{3};
  static constexpr std::chrono::duration<int, std::milli> kBetweenLooks{500};
  static constexpr int kLooksUntilContinued = 6;
  struct Request {
    int signal = 0;
    Clock::time_point at;
  };

  void say(std::string_view text) {
    has_said_ = true;
    progress_.clear();
    std::cerr << text << std::flush;
  }

  void show(std::string_view progress) {
    if (progress.empty()) {
      progress_.clear();
    } else {
      progress_.update(std::string(progress));
    }
  }

  void read_all() {
    read_into(*errors_, [this](std::string_view bytes) { messages_.add(bytes); });
    read_into(*output_.read_end, [this](std::string_view bytes) {
      std::string result(bytes);
      has_run_ = std::erase(result, kRankHasStarted) > 0 || has_run_;
      if (result.empty()) return;
      progress_.clear();
      has_result_ = true;
      write_all(result);
    });
  }

  /// To standard output; main reports that it failed. The ranks go on meanwhile.
  static void write_all(std::string_view bytes) {
    while (!bytes.empty() && std::cout) {
      const ssize_t count = write(STDOUT_FILENO, bytes.data(), bytes.size());
      if (count > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno != EINTR && errno != EAGAIN) {
        std::cout.setstate(std::ios::badbit);
      }
    }
  }

  template <class Take>
  static void read_into(Descriptor& source, const Take& take) {
    std::array<char, 4096> block;
    for (;;) {
      const ssize_t count = read(source.get(), block.data(), block.size());
      if (count > 0) {
        take(std::string_view(block.data(), static_cast<std::size_t>(count)));
      } else if (count == 0) {
        source.close();  // poll leaves it alone then
        return;
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  void pass_on(int signal) {
    const Clock::time_point now = Clock::now();
    if (!asked_) {
      asked_ = {signal, now};
      // First the ranks, which finish their step and write what they have. mpirun itself would give
      // them a second and then kill them; that is for who asks twice.
      const std::vector<Process> ranks = ranks_below(pid_);
      for (const Process& rank : ranks) kill(rank.id, signal);
      if (!ranks.empty()) {
        say(kStopping);
        return;
      }
    } else if (now - asked_->at < kOneRequest) {
      return;
    }
    if (!ended_by_) ended_by_ = {signal, now};
    kill(pid_, signal);
  }

  void look_after_mpirun() {
    const Clock::time_point now = Clock::now();
    next_look_ = now + kBetweenLooks;
    looks_while_stopped_ = process(pid_).is_stopped() ? looks_while_stopped_ + 1 : 0;
    if (looks_while_stopped_ == kLooksUntilContinued) {
      // The ranks need it to end.
      say("parplan: mpirun had been stopped by a signal; it goes on\n");
      kill(pid_, SIGCONT);
    }
    if (!trouble_) trouble_ = watch_->trouble();
    const bool asked_in_vain = ended_by_ && now - ended_by_->at >= kMpirunEndsRanks;
    if (!trouble_ && !asked_in_vain) return;
    kill(pid_, SIGSTOP);  // so that it starts nothing more
    for (const Process& process : processes_below(pid_)) kill(process.id, SIGKILL);
    kill(pid_, SIGKILL);
  }

  int exit_code(int code) {
    const bool by_request = is_interrupt_code(code);
    const std::optional<DeadRank> dead = messages_.dead_rank();
    const bool ended_in_words = code == 0 || by_request || ended_by_ || asked_ || dead;
    const bool explained = messages_.finish(!ended_in_words);
    if (ended_by_) return 128 + ended_by_->signal;
    if (trouble_) throw HwError(*trouble_);
    if (dead) {
      const std::string text =
          "rank " + std::to_string(dead->rank) + " was ended by " + text_of_signal(dead->signal);
      if (!by_request) throw HwError(text + hint(dead->signal));
      if (!asked_) std::cerr << "parplan: " << text << "\n";
    }
    if (code == 0 && !has_run_ && !has_result_) {
      throw HwError("mpirun ended without an error, but no rank has run; is '" + mpirun_ +
                    "' Open MPI's?");
    }
    if (code == 0 || by_request) return code;  // the ranks ended in order
    if (code > 128) throw HwError("mpirun was ended by " + text_of_signal(code - 128));
    if (explained) return code;
    // All processes of the job got the signal, and mpirun did not wait for the ranks.
    if (asked_) return 128 + asked_->signal;
    // A signal to mpirun alone: it asks the ranks to end by SIGTERM and keeps silent.
    if (has_result_ && !has_said_) return 128 + SIGTERM;
    throw HwError("mpirun ended with exit code " + std::to_string(code) +
                  "; what it says is above, or else a signal ended it");
  }

  static std::string text_of_signal(int signal) {
    return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }

  static std::string hint(int signal) {
    if (signal == SIGKILL) return "; the system does that when memory runs out";
    if (signal == SIGBUS) return "; was a file cut short while it was read?";
    return "";
  }

  std::string mpirun_;
  SignalQueue queue_;
  ProgressLine progress_;
  JobMessages messages_;
  std::unique_ptr<Descriptor> errors_;
  Pipe output_;  ///< mpirun's and the ranks', who open it anew: both ends stay open
  pid_t pid_ = -1;
  bool has_run_ = false;     ///< a rank
  bool has_result_ = false;  ///< a rank wrote to standard output
  bool has_said_ = false;    ///< on standard error
  std::optional<Request> asked_;
  std::optional<Request> ended_by_;  ///< what was passed on to mpirun
  std::optional<MpirunWatch> watch_;
  Clock::time_point next_look_{};
  int looks_while_stopped_ = 0;  ///< in a row
  std::optional<std::string> trouble_;
};

}  // namespace

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

int launch_ranks(int ranks, const std::vector<std::string>& arguments) {
  const std::string mpirun = path_of("mpirun");
  if (mpirun.empty()) {
    throw InputError(
        "mpirun is not installed; install Open MPI (Debian: openmpi-bin), or start the "
        "ranks with the cluster's own launcher: srun parplan execute ...");
  }
  std::vector<std::string> command{"mpirun",    "-n",   std::to_string(ranks),
                                   "--bind-to", "none", own_program()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Job(mpirun, std::move(command)).wait();
}

}  // namespace parplan::tools
