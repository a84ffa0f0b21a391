#pragma once

#include <csignal>

namespace parplan::tools {

/// While it lives, this thread takes interrupting_signals() and SIGCHLD one by one instead of being
/// interrupted by them.
class SignalQueue {
 public:
  /// Throws HwError where the system has no descriptor left.
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// To poll: readable when there is a signal.
  int descriptor() const { return fd_; }
  /// The next signal, 0 when there is none.
  int take() const;
  /// What was blocked before; children should start with it.
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_{};
  int fd_ = -1;
};

}  // namespace parplan::tools
