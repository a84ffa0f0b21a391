#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace parplan::hw {

/// What a rank tells the others about its process. Travels as it lies in memory.
struct PeerProcess {
  std::array<char, 64> host_name{};  ///< ends with a zero
  std::array<char, 40> boot_id{};    ///< equal where the kernel is the same
  std::uint64_t pid_namespace = 0;
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< tells a process from a later one with the same number

  /// Whether this process can look at `other` in /proc.
  [[nodiscard]] bool sees(const PeerProcess& other) const {
    return boot_id == other.boot_id && pid_namespace == other.pid_namespace && pid_namespace != 0;
  }
};

[[nodiscard]] PeerProcess own_process();

/// What /proc says against a process that this one sees: "(process 77 on host a) is stopped" or
/// "... has ended"; nothing for a process that lives.
[[nodiscard]] std::optional<std::string> trouble_of(const PeerProcess& process);

}  // namespace parplan::hw
