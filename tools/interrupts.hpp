#pragma once

#include <atomic>
#include <chrono>
#include <span>
#include <string_view>

namespace parplan::tools {

/// Signals within this time of the first are the same request: terminals, `timeout` and launchers
/// deliver one Ctrl-C to the process and to its group.
inline constexpr std::chrono::seconds kOneRequest{2};

/// What the user is told after the first signal.
inline constexpr std::string_view kStopping =
    "parplan: stopping in order; interrupt again after 2 s to end at once\n";

/// SIGINT, SIGTERM and SIGHUP, the last only where it was not ignored when first asked (as `nohup`
/// does it).
std::span<const int> interrupting_signals();

/// Whether an exit code is 128 + one of them.
bool is_interrupt_code(int code);

/// The first of interrupting_signals asks for an orderly end, one more than kOneRequest later ends
/// the process at once with 128 + that signal. `announce`: say kStopping on standard error at the
/// first one; not for ranks, which would all say it.
void watch_interrupts(bool announce);

/// Set by the first signal once `watch_interrupts` was called.
const std::atomic<bool>& interrupted();

/// The first signal, 0 when there was none.
int received_signal();

}  // namespace parplan::tools
