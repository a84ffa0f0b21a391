#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "hw/device.hpp"
#include "hw/executor/bound_step.hpp"
#include "hw/executor/input_data.hpp"
#include "hw/executor/sampler.hpp"
#include "hw/executor/trace_recorder.hpp"
#include "hw/world.hpp"

namespace parplan::hw {

struct StepSettings {
  const Sampler& sampler;
  std::uint64_t seed = 0;
  std::int64_t microbatch_samples = 0;
  double& loss;  ///< what the bound loss operations add to
};

/// Runs training steps of one rank. The step loop makes no string, looks nothing up by name and
/// allocates no memory of its own (communicators and the operating system may).
class StepRunner {
 public:
  /// Everything outlives the runner; `recorder` may be null.
  StepRunner(World& world, Device& device, BoundStep& step, const InputData& data,
             const StepSettings& settings, TraceRecorder* recorder);

  /// Step 0, 1, ... in order. Returns this rank's part of the loss. Everything the step started is
  /// complete when it returns.
  double run(std::int64_t step);

 private:
  void begin_step(std::int64_t step);
  void wait_for(const BoundInstruction& instruction);
  void complete(std::size_t instruction);
  void run_operations(const BoundInstruction& instruction);
  void run_operation(BoundOperation& operation);
  void load(const BoundOperation& operation);
  void finish(Pending pending, std::int32_t comm_slot);
  void start_communication(std::size_t index, const BoundInstruction& instruction);
  template <class Call>
  void run_on_device(const Call& call, bool polls);
  void apply_lifetimes(std::int32_t begin, std::int32_t end);
  void stamp() {
    if (recorder_ != nullptr) recorder_->stamp();
  }
  static void poll(void* self) noexcept;

  World& world_;
  Device& device_;
  BoundStep& step_;
  const InputData& data_;
  const Sampler& sampler_;
  std::uint64_t seed_;
  double& loss_;
  TraceRecorder* recorder_;

  std::int64_t step_number_ = 0;
  std::uint64_t step_key_ = 0;         ///< keys dropout and communication of this step
  std::vector<Pending> pending_;       ///< per instruction
  std::vector<bool> outstanding_;      ///< per instruction
  std::vector<std::int64_t> samples_;  ///< of the microbatch loaded last
  /// Its step and the place of its first sample.
  std::optional<std::pair<std::int64_t, std::int64_t>> loaded_;
  std::vector<std::byte> staging_;  ///< for devices that the host cannot write to
  KernelContext polling_;
  KernelContext quiet_;
  std::exception_ptr poll_failure_;
};

}  // namespace parplan::hw
