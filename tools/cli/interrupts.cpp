#include <csignal>
#include <cstdlib>

#include "tools/cli/command.hpp"

namespace parplan::tools {
namespace {

std::atomic<bool> g_interrupted{false};
volatile std::sig_atomic_t g_signal = SIGINT;

/// The first signal asks for an orderly end, the second one does not wait for it.
extern "C" void on_signal(int signal) {
  g_signal = signal;
  if (g_interrupted.exchange(true)) std::_Exit(128 + signal);
}

}  // namespace

const std::atomic<bool>& interrupted() { return g_interrupted; }

int interrupt_code() { return 128 + static_cast<int>(g_signal); }

void watch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

}  // namespace parplan::tools
