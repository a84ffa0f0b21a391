#include "hw/executor/step_runner.hpp"

#include <utility>

#include "hw/random.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {

StepRunner::StepRunner(World& world, Device& device, BoundStep& step, const InputData& data,
                       const StepSettings& settings, TraceRecorder* recorder)
    : world_(world),
      device_(device),
      step_(step),
      data_(data),
      sampler_(settings.sampler),
      seed_(settings.seed),
      loss_(settings.loss),
      recorder_(recorder),
      pending_(step.instructions.size()),
      outstanding_(step.instructions.size()),
      samples_(static_cast<std::size_t>(settings.microbatch_samples)) {
  polling_.poll = {&StepRunner::poll, this};
}

double StepRunner::run(std::int64_t step) {
  begin_step(step);
  for (std::size_t i = 0; i < step_.instructions.size(); ++i) {
    BoundInstruction& instruction = step_.instructions[i];
    wait_for(instruction);
    apply_lifetimes(instruction.lifetime_begin, instruction.lifetime_end);
    switch (instruction.kind) {
      case InstructionKind::kRun:
        run_operations(instruction);
        break;
      case InstructionKind::kOptimizer:
        instruction.adam.step = step_number_ + 1;
        run_on_device(instruction.adam, instruction.polls);
        break;
      case InstructionKind::kGradientNorm:
        run_on_device(instruction.norm, instruction.polls);
        break;
      case InstructionKind::kSend:
      case InstructionKind::kReceive:
      case InstructionKind::kReduce:
      case InstructionKind::kReduceTied:
      case InstructionKind::kReduceNorm:
        start_communication(i, instruction);
        break;
    }
  }
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (outstanding_[i]) complete(i);
  }
  if (step_.loss_scale) device_.run(*step_.loss_scale);
  device_.synchronize();
  stamp();
  return loss_;
}

void StepRunner::begin_step(std::int64_t step) {
  if (recorder_ != nullptr) recorder_->begin_step(step);
  stamp();
  step_number_ = step;
  // Far apart for neighbouring steps and seeds: a bijection of the step for every seed.
  step_key_ = splitmix64(seed_ + static_cast<std::uint64_t>(step) * kGoldenGamma);
  loss_ = 0.0;
}

void StepRunner::wait_for(const BoundInstruction& instruction) {
  for (std::int32_t w = instruction.wait_begin; w < instruction.wait_end; ++w) {
    const std::uint32_t index = step_.waits[static_cast<std::size_t>(w)];
    if (outstanding_[index]) complete(index);
  }
}

void StepRunner::complete(std::size_t index) {
  outstanding_[index] = false;
  finish(std::move(pending_[index]), step_.instructions[index].comm_slot);
}

void StepRunner::finish(Pending pending, std::int32_t comm_slot) {
  pending.wait();
  if (recorder_ != nullptr) recorder_->communication(comm_slot, pending.times());
}

void StepRunner::run_operations(const BoundInstruction& instruction) {
  stamp();
  for (std::int32_t k = instruction.op_begin; k < instruction.op_end; ++k) {
    BoundOperation& operation = step_.operations[static_cast<std::size_t>(k)];
    apply_lifetimes(operation.lifetime_begin, operation.lifetime_middle);
    run_operation(operation);
    apply_lifetimes(operation.lifetime_middle, operation.lifetime_end);
    if (operation.polls) world_.progress().poll();
    stamp();
  }
}

void StepRunner::run_operation(BoundOperation& operation) {
  switch (operation.kind) {
    case BoundOperation::Kind::kKernel:
      if (operation.drops) {
        operation.call.dropout_key = splitmix64(step_key_ ^ operation.dropout_name);
      }
      device_.run(operation.call, operation.polls ? polling_ : quiet_);
      if (poll_failure_) std::rethrow_exception(std::exchange(poll_failure_, nullptr));
      break;
    case BoundOperation::Kind::kLoad:
      load(operation);
      break;
    case BoundOperation::Kind::kAllReduce:
      device_.synchronize();
      finish(operation.group->all_reduce_sum(operation.whole, operation.comm_key ^ step_key_),
             operation.comm_slot);
      break;
    case BoundOperation::Kind::kAllGather:
      device_.synchronize();
      finish(operation.group->all_gather(operation.part, operation.whole,
                                         operation.comm_key ^ step_key_),
             operation.comm_slot);
      break;
  }
}

void StepRunner::load(const BoundOperation& operation) {
  const std::pair wanted(step_number_, operation.first_sample);
  if (loaded_ != wanted) {
    sampler_.indexes(step_number_, operation.first_sample, samples_);
    loaded_ = wanted;
  }
  if (device_.host_accessible()) {
    data_.load(operation.value, samples_, operation.target);
    return;
  }
  staging_.resize(static_cast<std::size_t>(operation.bytes.value));
  data_.load(operation.value, samples_, staging_.data());
  device_.copy_from_host(operation.target, staging_.data(), operation.bytes);
}

void StepRunner::start_communication(std::size_t index, const BoundInstruction& instruction) {
  device_.synchronize();
  const std::uint64_t key = instruction.comm_key ^ step_key_;
  Communicator& group = *instruction.group;
  switch (instruction.kind) {
    case InstructionKind::kSend:
      pending_[index] = group.send(instruction.data, instruction.peer, instruction.tag, key);
      break;
    case InstructionKind::kReceive:
      pending_[index] = group.receive(instruction.data, instruction.peer, instruction.tag, key);
      break;
    case InstructionKind::kReduce:
    case InstructionKind::kReduceTied:
    case InstructionKind::kReduceNorm:
      pending_[index] = group.all_reduce_sum(instruction.data, key);
      break;
    case InstructionKind::kRun:
    case InstructionKind::kOptimizer:
    case InstructionKind::kGradientNorm:
      throw InternalError("only communication is started");
  }
  outstanding_[index] = true;
}

template <class Call>
void StepRunner::run_on_device(const Call& call, bool polls) {
  stamp();
  device_.run(call, polls ? polling_ : quiet_);
  if (poll_failure_) std::rethrow_exception(std::exchange(poll_failure_, nullptr));
  stamp();
}

void StepRunner::apply_lifetimes(std::int32_t begin, std::int32_t end) {
  for (std::int32_t i = begin; i < end; ++i) {
    const Lifetime& lifetime = step_.lifetimes[static_cast<std::size_t>(i)];
    if (lifetime.begins) {
      unpoison(lifetime.memory, lifetime.size);
    } else {
      poison(lifetime.memory, lifetime.size);
    }
  }
}

void StepRunner::poll(void* self) noexcept {
  auto& runner = *static_cast<StepRunner*>(self);
  if (runner.poll_failure_) return;
  try {
    runner.world_.progress().poll();
  } catch (...) {
    runner.poll_failure_ = std::current_exception();
  }
}

}  // namespace parplan::hw
