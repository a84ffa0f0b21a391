#include "hw/cpu/threads.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

constexpr int kMaxThreads = 1024;

std::atomic<int> thread_count{1};

}  // namespace

void set_threads(int count) {
  if (count < 1 || count > kMaxThreads) {
    throw InputError("the number of threads must lie between 1 and " + std::to_string(kMaxThreads) +
                     ", got " + std::to_string(count));
  }
  thread_count.store(count, std::memory_order_relaxed);
}

int threads() { return thread_count.load(std::memory_order_relaxed); }

void apply_thread_count() {
  thread_local int applied = 0;
  const int wanted = threads();
  if (applied != wanted) {
    omp_set_num_threads(wanted);
    applied = wanted;
  }
}

void parallel_loop(std::int64_t count, int thread_count, LoopBody body, void* state) {
  const int team = static_cast<int>(std::clamp<std::int64_t>(count, 1, thread_count));
  if (team == 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      body(state, i, 0);
    }
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (std::int64_t i = 0; i < count; ++i) {
    body(state, i, omp_get_thread_num());
  }
}

}  // namespace parplan::hw
