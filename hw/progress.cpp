#include "hw/progress.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "hw/operation.hpp"
#include "hw/transport.hpp"

namespace parplan::hw {

namespace {

using Duration = Clock::duration;

// A poll that completes nothing takes well under a microsecond when there is nothing to move; one
// that takes longer moved bytes of a message (a socket read); one that takes very long was
// preempted.
constexpr Duration kIdlePoll = std::chrono::microseconds(2);
constexpr Duration kPreempted = std::chrono::microseconds(500);
// Ranks with a core of their own poll this long before they begin to yield it.
constexpr Duration kSpin = std::chrono::microseconds(50);
// When nothing moved for kWatchAfter, the peer's health is looked at every kWatchEvery.
constexpr Duration kWatchAfter = std::chrono::milliseconds(100);
constexpr Duration kWatchEvery = std::chrono::milliseconds(50);
// Two polls of a wait lie farther apart than this only when this process was stopped meanwhile.
constexpr Duration kStopped = std::chrono::seconds(1);

Duration from_seconds(std::chrono::duration<double> seconds) {
  return std::chrono::duration_cast<Duration>(seconds);
}

std::string in_words(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", std::chrono::duration<double>(duration).count());
  return text;
}

}  // namespace

/// What one wait has seen of the rank it waits for.
struct Progress::Watch {
  Clock::time_point next{};
  int rank = -1;
  std::optional<Clock::time_point> bad_since;
};

Progress::Progress(Transport& transport, WaitPolicy policy, bool yield_at_once)
    : transport_(transport), policy_(policy), yield_at_once_(yield_at_once) {}

void Progress::check() const {
  if (!broken_.empty()) {
    throw HwError(broken_);
  }
}

void Progress::add(Operation& operation) { outstanding_.push_back(&operation); }

void Progress::remove(const Operation& operation) noexcept { std::erase(outstanding_, &operation); }

void Progress::break_down(std::string reason) noexcept {
  if (broken_.empty()) {
    broken_ = std::move(reason);
  }
}

void Progress::poll_outstanding() noexcept {
  const Clock::time_point begin = Clock::now();
  const bool moved = advance_all();
  const Duration elapsed = Clock::now() - begin;
  for (Operation* operation : outstanding_) {
    operation->times().in_progress += elapsed / static_cast<int>(outstanding_.size());
  }
  share_time(elapsed, moved);
  drop_finished();
}

// Steps every operation; those that finished stay listed until drop_finished.
bool Progress::advance_all() noexcept {
  bool moved = false;
  try {
    if (transport_.poll()) {
      const Clock::time_point now = Clock::now();
      for (Operation* operation : outstanding_) {
        moved = operation->step(now) || moved;
      }
    }
    if (std::optional<std::string> failure = transport_.failure()) {
      break_down(std::move(*failure));
    }
  } catch (const std::exception& error) {
    break_down(error.what());
  }
  return moved;
}

void Progress::share_time(Duration elapsed, bool moved) noexcept {
  if (!moved && (elapsed < kIdlePoll || elapsed > kPreempted)) {
    return;
  }
  const auto counts = [&](const Operation* operation) {
    return !moved || operation->moved_in_last_step();
  };
  const auto sharing = std::count_if(outstanding_.begin(), outstanding_.end(), counts);
  for (Operation* operation : outstanding_) {
    if (counts(operation)) {
      operation->times().cpu += elapsed / sharing;
    }
  }
}

void Progress::drop_finished() noexcept {
  std::erase_if(outstanding_, [&](const Operation* operation) {
    if (operation->failed()) {
      try {
        operation->rethrow_if_failed();
      } catch (const std::exception& error) {
        break_down(error.what());
      } catch (...) {
        break_down("an operation failed");
      }
    }
    return operation->done() || operation->failed();
  });
}

void Progress::wait(Operation& operation, std::optional<Clock::time_point> deadline) {
  if (operation.done()) {
    return;
  }
  const Clock::time_point begin = Clock::now();
  Clock::time_point last = begin;
  Clock::time_point idle_since = begin;
  Duration stopped{};
  Watch watch;
  while (true) {
    operation.rethrow_if_failed();
    check();
    const bool moved = advance_all();
    Clock::time_point now = Clock::now();
    share_time(now - last, moved);
    drop_finished();
    if (operation.done()) {
      operation.times().in_wait += now - begin;
      return;
    }
    if (moved) {
      idle_since = now;
    } else {
      if (yield_at_once_ || now - idle_since > kSpin) {
        sched_yield();
        now = Clock::now();
      }
      if (now - last > kStopped) {
        stopped += now - last;
      }
      watch_peer(operation, watch, now, std::max(begin, operation.last_moved()));
      check_deadline(operation, begin, stopped, deadline, now);
    }
    last = now;
  }
}

void Progress::check_deadline(const Operation& operation, Clock::time_point begin, Duration stopped,
                              std::optional<Clock::time_point> deadline, Clock::time_point now) {
  if (deadline.has_value()) {
    if (now - stopped >= *deadline) {
      give_up(operation, now - begin, "");
    }
    return;
  }
  const Duration idle = now - std::max(begin, operation.last_moved()) - stopped;
  const Duration limit = from_seconds(policy_.timeout);
  // Whoever only sees a rank that may itself be waiting leaves the verdict to those who know
  // better.
  if (idle >= limit && (operation.blocker().direct || idle >= limit + limit / 2)) {
    give_up(operation, now - begin, "");
  }
}

void Progress::watch_peer(const Operation& operation, Watch& watch, Clock::time_point now,
                          Clock::time_point idle_since) {
  if (now - idle_since < kWatchAfter || now < watch.next) {
    return;
  }
  watch.next = now + kWatchEvery;
  const Blocker blocker = operation.blocker();
  const std::optional<PeerTrouble> trouble = transport_.trouble(blocker.world_rank);
  if (!trouble.has_value() || watch.rank != blocker.world_rank) {
    watch.bad_since.reset();
  }
  watch.rank = blocker.world_rank;
  if (!trouble.has_value()) {
    return;
  }
  if (!watch.bad_since.has_value()) {
    // What it sent before may still be on its way: look again before the verdict.
    watch.bad_since = now;
    return;
  }
  if (trouble->certain || now - *watch.bad_since >= from_seconds(policy_.dead_peer_grace)) {
    give_up(operation, now - idle_since,
            "rank " + std::to_string(blocker.world_rank) + " " + trouble->what);
  }
}

void Progress::give_up(const Operation& operation, Duration waited, const std::string& why) {
  const Blocker blocker = operation.blocker();
  std::string text = operation.describe() + " waited " + in_words(waited) + " for rank " +
                     std::to_string(blocker.world_rank) + ": " + blocker.what;
  if (!why.empty()) {
    text += "; " + why;
  }
  break_down(text);
  throw HwError(text);
}

}  // namespace parplan::hw
