#pragma once

#include <cstdint>

namespace parplan::hw {

/// How many threads a long kernel may use: GEMMs (also those inside oneDNN) and attention. One
/// number for the process, 1 at first, since a rank usually has a core of its own. May be called
/// from any thread; kernels that are running keep the number they started with.
/// Throws InputError unless 1 <= count <= 1024.
void set_threads(int count);
[[nodiscard]] int threads();

/// Makes oneDNN, when called from this thread, use `threads()` threads (OpenMP keeps the number for
/// each thread apart). The GEMM kernels call it themselves; it costs a comparison.
void apply_thread_count();

/// One index of a parallel loop. `thread` is 0 on the calling thread, and below the loop's number
/// of threads everywhere.
using LoopBody = void (*)(void* state, std::int64_t index, int thread);

/// Runs body(state, i, thread) for every i in [0, count), on at most `thread_count` threads (the
/// calling one among them), and returns when all are done. Which thread runs which index is not
/// fixed. The body must not throw.
void parallel_loop(std::int64_t count, int thread_count, LoopBody body, void* state);

/// The same for a callable `body(index, thread)`.
template <class Body>
void parallel_for(std::int64_t count, int thread_count, Body& body) {
  parallel_loop(
      count, thread_count,
      [](void* state, std::int64_t index, int thread) {
        (*static_cast<Body*>(state))(index, thread);
      },
      &body);
}

}  // namespace parplan::hw
