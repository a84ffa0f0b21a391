#include "tools/interrupts.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>

namespace parplan::tools {
namespace {

std::atomic<bool> g_interrupted{false};
std::atomic<int> g_signal{0};
std::atomic<std::int64_t> g_first_ns{0};
std::atomic<bool> g_announce{false};
std::atomic<bool> g_terminal{false};

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Safe inside a signal handler. A terminal may show a progress line.
void say_stopping() {
  const int before = errno;
  if (g_terminal) static_cast<void>(!write(STDERR_FILENO, "\n", 1));
  static_cast<void>(!write(STDERR_FILENO, kStopping.data(), kStopping.size()));
  errno = before;
}

extern "C" void on_signal(int signal) {
  const std::int64_t now = now_ns();
  std::int64_t first = 0;
  if (g_first_ns.compare_exchange_strong(first, now)) {
    g_signal = signal;
    g_interrupted = true;
    if (g_announce) say_stopping();
    return;
  }
  if (now - first >= std::chrono::nanoseconds(kOneRequest).count()) std::_Exit(128 + signal);
}

}  // namespace

std::span<const int> interrupting_signals() {
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  static const bool ignores_last = [] {
    struct sigaction action {};
    sigaction(kSignals.back(), nullptr, &action);
    return action.sa_handler == SIG_IGN;
  }();
  return std::span(kSignals).first(kSignals.size() - (ignores_last ? 1 : 0));
}

bool is_interrupt_code(int code) {
  const std::span<const int> signals = interrupting_signals();
  return std::find(signals.begin(), signals.end(), code - 128) != signals.end();
}

const std::atomic<bool>& interrupted() { return g_interrupted; }

int received_signal() { return g_signal; }

void watch_interrupts(bool announce) {
  g_announce = announce;
  g_terminal = isatty(STDERR_FILENO) != 0;
  for (const int signal : interrupting_signals()) std::signal(signal, on_signal);
}

}  // namespace parplan::tools
