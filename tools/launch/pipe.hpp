#pragma once

#include <memory>
#include <utility>

namespace parplan::tools {

/// `result` of a system call; throws HwError naming the call when it is negative.
int checked(int result, const char* call);

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  void close();

 private:
  int fd_;
};

/// What a child writes and we read, without waiting. Both ends are closed on exec.
struct Pipe {
  std::unique_ptr<Descriptor> read_end;
  std::unique_ptr<Descriptor> write_end;

  Pipe();
};

}  // namespace parplan::tools
