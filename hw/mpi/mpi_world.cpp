#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "hw/mpi/mpi_process.hpp"
#include "hw/mpi/mpi_transport.hpp"
#include "hw/world.hpp"

namespace parplan::hw {

namespace {

constexpr int kEarlyExitCode = 1;

bool mpi_is_open() noexcept {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

// exit() or a return from main while the world is open: the others would wait for ever.
void at_exit() {
  if (mpi_is_open()) {
    abort_world(kEarlyExitCode, "exited before World::finish; the other ranks cannot go on");
  }
}

/// Ends the process when MPI_Init does not come back: a launcher that has locked up leaves its
/// ranks there for ever, and so does a rank that never starts.
class StartWatch {
 public:
  explicit StartWatch(std::chrono::duration<double> timeout)
      : timeout_(std::max(timeout, kLeast)), thread_([this] { watch(); }) {}
  ~StartWatch() {
    {
      const std::lock_guard lock(mutex_);
      started_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  /// Many ranks on few cores take long to start, however short the wait for one may be later.
  static constexpr std::chrono::duration<double> kLeast{60.0};

  void watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, timeout_, [this] { return started_; })) {
      return;
    }
    std::array<char, 80> reason{};
    std::snprintf(reason.data(), reason.size(),
                  "MPI has not started within %.0f s; did another rank fail?", timeout_.count());
    abort_world(kEarlyExitCode, reason.data());
  }

  std::chrono::duration<double> timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::thread thread_;
};

std::optional<Unavailable> start_mpi(std::chrono::duration<double> timeout) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised != 0) {
    return Unavailable{"MPI was started before; a process opens one MPI world"};
  }
  int provided = 0;
  {
    const StartWatch watch(timeout);
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
      return Unavailable{"MPI_Init_thread failed"};
    }
  }
  std::atexit(at_exit);
  if (provided < MPI_THREAD_FUNNELED) {
    return Unavailable{"this MPI library does not allow other threads in a rank"};
  }
  int* highest_tag = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest_tag, &found);
  if (found == 0 || *highest_tag < Transport::kTagLimit) {
    return Unavailable{"this MPI library's tags end below " + std::to_string(Transport::kTagLimit)};
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::nullopt;
}

}  // namespace

std::variant<std::unique_ptr<World>, Unavailable> open_mpi_world(const WorldOptions& options) {
  if (std::optional<Unavailable> problem = start_mpi(options.wait.timeout)) {
    return std::move(*problem);
  }
  return std::make_unique<World>(std::make_unique<MpiTransport>(), options);
}

std::optional<int> open_mpi_rank() noexcept {
  if (!mpi_is_open()) {
    return std::nullopt;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void abort_mpi(int code) noexcept {
  if (mpi_is_open()) {
    MPI_Abort(MPI_COMM_WORLD, code);
  }
}

void MpiTransport::left_early() noexcept {
  abort_world(kEarlyExitCode, "left the job without World::finish; the other ranks cannot go on");
}

}  // namespace parplan::hw
