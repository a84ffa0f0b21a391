#include "tools/launch/pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "sim/core/error.hpp"

namespace parplan::tools {

int checked(int result, const char* call) {
  if (result < 0) throw HwError(std::string(call) + ": " + std::strerror(errno));
  return result;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Pipe::Pipe() {
  std::array<int, 2> ends{};
  checked(pipe2(ends.data(), O_CLOEXEC), "pipe2");
  read_end = std::make_unique<Descriptor>(ends[0]);
  write_end = std::make_unique<Descriptor>(ends[1]);
  checked(fcntl(ends[0], F_SETFL, O_NONBLOCK), "fcntl");
}

}  // namespace parplan::tools
