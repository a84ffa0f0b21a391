#pragma once

#include <sys/types.h>

#include <vector>

namespace parplan::tools {

/// A process as the system shows it.
struct ChildProcess {
  pid_t id = 0;
  char state = '?';  ///< the letter of proc(5)

  /// Its parent has not taken note of it yet.
  [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X'; }
};

/// The processes that `parent` started, whichever of its threads started them. Those that have
/// ended are there until the parent has waited for them; none where the parent is gone.
[[nodiscard]] std::vector<ChildProcess> children_of(pid_t parent);

/// The state of a process as in ChildProcess, '?' when there is none.
[[nodiscard]] char state_of(pid_t process);

}  // namespace parplan::tools
