#include "hw/executor/process_memory.hpp"

#include <fstream>
#include <string>
#include <string_view>

namespace parplan::hw {
namespace {

Bytes status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kibibytes = 0;
    if (word == field && status >> kibibytes) return Bytes{kibibytes * 1024};
  }
  return Bytes{0};
}

}  // namespace

Bytes peak_process_bytes() { return status_bytes("VmHWM:"); }

Bytes resident_process_bytes() { return status_bytes("VmRSS:"); }

void reset_peak_process_bytes() {
  // proc(5): writing 5 resets VmHWM to the current resident set size.
  std::ofstream("/proc/self/clear_refs") << '5';
}

}  // namespace parplan::hw
