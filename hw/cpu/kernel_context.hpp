#pragma once

namespace parplan::hw {

/// A callback that moves communication forward while a kernel computes (transports that move only
/// when polled). It must not throw and must not start kernels. The default does nothing.
struct Poll {
  void (*call)(void* state) noexcept = nullptr;
  void* state = nullptr;

  void operator()() const {
    if (call != nullptr) {
      call(state);
    }
  }
};

/// What a kernel is given beside its operands. Long kernels call `poll` at least about every
/// millisecond, between blocks of work, on the calling thread; kernels that are short by nature may
/// not call it at all.
struct KernelContext {
  Poll poll;
};

}  // namespace parplan::hw
