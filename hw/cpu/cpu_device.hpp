#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hw/cpu/widened_kernel.hpp"
#include "hw/device.hpp"

namespace parplan::hw {

/// Angular frequencies of the rotary ops met so far.
class RotaryTables {
 public:
  const double* frequencies(const RotaryOp& op);

 private:
  struct Table {
    RotaryOp op;
    std::vector<double> frequencies;
  };
  std::vector<Table> tables_;
};

/// Scratch of kernels that run on several threads. One thread uses the call's workspace, which the
/// plan's memory counts; more threads need as many, which are the device's own.
class ThreadScratch {
 public:
  /// `bytes` per thread, for `threads()` threads.
  std::span<std::byte> for_threads(const KernelCall& call, std::int64_t bytes);

 private:
  std::vector<std::byte> own_;
};

/// What kernels keep from call to call.
struct KernelState {
  RotaryTables rotary;
  ThreadScratch scratch;
  WideningScratch widened;
};

/// Runs the kernels of hw/cpu on the calling thread; everything is synchronous. Reserved ranges are
/// anonymous mappings, in huge pages where the system gives them.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads);

  std::string_view name() const override { return "cpu"; }
  bool supports(OpCode code, DType dtype) const override;
  bool host_accessible() const override { return true; }
  std::byte* reserve(Bytes size) override;
  void release(std::byte* memory, Bytes size) noexcept override;
  void run(const KernelCall& call, const KernelContext& context) override;
  void run(const AdamCall& call, const KernelContext& context) override;
  void run(const NormCall& call, const KernelContext& context) override;
  void run(const LossScaleCall& call) override;
  void copy_from_host(std::byte* to, const std::byte* host, Bytes size) override;
  void copy_to_host(std::byte* host, const std::byte* from, Bytes size) override;
  void synchronize() override {}

 private:
  KernelState state_;
};

/// What CpuDevice::run does, for elements of type T (float, double). InternalError for a code that
/// no device runs (collectives, loading, kAdam) and for an op of another kind than the code needs.
template <class T>
void run_kernel(const KernelCall& call, KernelState& state, const KernelContext& context);

}  // namespace parplan::hw
