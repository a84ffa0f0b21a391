#include "tools/launch/signal_queue.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/interrupts.hpp"
#include "tools/launch/pipe.hpp"

namespace parplan::tools {

SignalQueue::SignalQueue() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : interrupting_signals()) sigaddset(&set, signal);
  fd_ = checked(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");
  sigprocmask(SIG_BLOCK, &set, &before_);
}

SignalQueue::~SignalQueue() {
  ::close(fd_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int SignalQueue::take() const {
  signalfd_siginfo info{};
  return read(fd_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace parplan::tools
