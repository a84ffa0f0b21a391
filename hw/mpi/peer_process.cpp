#include "hw/mpi/peer_process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace parplan::hw {

namespace {

struct ProcessState {
  char state = '?';
  std::uint64_t start_ticks = 0;
};

// /proc/PID/stat: pid (name) state ...; the start time is field 22. The name may hold any
// character, so fields count from the last ')'.
std::optional<ProcessState> read_state(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) {
    return std::nullopt;
  }
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  std::istringstream fields(text.substr(name_end + 1));
  ProcessState result;
  std::string skipped;
  fields >> result.state;
  constexpr int kBetween = 18;  // fields 4 to 21
  for (int i = 0; i < kBetween; ++i) {
    fields >> skipped;
  }
  fields >> result.start_ticks;
  return fields ? std::optional(result) : std::nullopt;
}

template <std::size_t N>
void store(std::array<char, N>& target, const std::string& text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), length, target.begin());
}

}  // namespace

PeerProcess own_process() {
  PeerProcess own;
  gethostname(own.host_name.data(), own.host_name.size() - 1);
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(boot, id);
  store(own.boot_id, id);
  struct stat name_space {};
  if (stat("/proc/self/ns/pid", &name_space) == 0 && !id.empty()) {
    own.pid_namespace = static_cast<std::uint64_t>(name_space.st_ino);
  }
  own.pid = getpid();
  if (const auto state = read_state(own.pid)) {
    own.start_ticks = state->start_ticks;
  }
  return own;
}

std::optional<std::string> trouble_of(const PeerProcess& process) {
  const std::string who =
      "(process " + std::to_string(process.pid) + " on host " + process.host_name.data() + ") ";
  const std::optional<ProcessState> now = read_state(process.pid);
  if (!now.has_value() || now->start_ticks != process.start_ticks || now->state == 'Z' ||
      now->state == 'X') {
    return who + "has ended";
  }
  if (now->state == 'T' || now->state == 't') {
    return who + "is stopped";
  }
  return std::nullopt;
}

}  // namespace parplan::hw
