#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace parplan::tools {

/// A process as the system shows it.
struct Process {
  pid_t id = 0;
  char state = '?';  ///< the letter of proc(5)
  std::string name;  ///< of the program it runs, at most 15 characters; stays when it has ended

  /// Its parent has not taken note of it yet.
  [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X'; }
  [[nodiscard]] bool is_stopped() const { return state == 'T'; }
};

/// One process; its state is '?' and its name empty when there is none.
[[nodiscard]] Process process(pid_t id);

/// The processes that `parent` started and those that they started in turn, whichever of their
/// threads did. Those that have ended are there until their parent has waited for them; none where
/// `parent` is gone.
[[nodiscard]] std::vector<Process> processes_below(pid_t parent);

/// Those of them that run the program of this process: the ranks below an mpirun, be it a script
/// that starts another.
[[nodiscard]] std::vector<Process> ranks_below(pid_t parent);

}  // namespace parplan::tools
