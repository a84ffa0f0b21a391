#include "hw/cpu/cpu_device.hpp"

#include <cmath>
#include <cstring>
#include <string>

#include "hw/cpu/adam.hpp"
#include "hw/cpu/embedding.hpp"
#include "hw/cpu/gradient_norm.hpp"
#include "hw/cpu/threads.hpp"
#include "hw/page_buffer.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

template <class T>
void adam(const AdamCall& call, const KernelContext& context) {
  const Optimizer& o = *call.optimizer;
  const AdamRange<T> range{reinterpret_cast<T*>(call.parameters),
                           reinterpret_cast<const T*>(call.gradients),
                           reinterpret_cast<T*>(call.first_moment),
                           reinterpret_cast<T*>(call.second_moment), call.count};
  AdamSettings settings{learning_rate_at(o, call.step), o.beta1, o.beta2, o.epsilon, o.weight_decay,
                        o.kind == OptimizerKind::kAdamW};
  std::int64_t step = call.step;
  if (call.gradient != nullptr) {
    const double scale = call.gradient->loss_scale;
    const double norm = std::sqrt(call.gradient->squared_norm) / scale;
    settings.gradient_factor =
        (o.max_gradient_norm ? clip_factor(norm, *o.max_gradient_norm) : 1.0) / scale;
    if (call.scales_loss) step = call.gradient->updates + 1;
  }
  adam_step(range, settings, step, context);
}

}  // namespace

const double* RotaryTables::frequencies(const RotaryOp& op) {
  for (const Table& table : tables_) {
    if (table.op == op) return table.frequencies.data();
  }
  std::optional<Llama3RopeScaling> scaling;
  if (op.scaling) {
    scaling =
        Llama3RopeScaling{op.scaling->factor, op.scaling->low_frequency_factor,
                          op.scaling->high_frequency_factor, op.scaling->original_max_positions};
  }
  tables_.push_back({op, rotary_frequencies(op.head_dim, op.theta, scaling)});
  return tables_.back().frequencies.data();
}

std::span<std::byte> ThreadScratch::for_threads(const KernelCall& call, std::int64_t bytes) {
  if (threads() == 1) return {call.workspace, static_cast<std::size_t>(bytes)};
  const std::size_t wanted = static_cast<std::size_t>(bytes) * static_cast<std::size_t>(threads());
  if (own_.size() < wanted) own_.resize(wanted);
  return {own_.data(), wanted};
}

CpuDevice::CpuDevice(int threads) { set_threads(threads); }

bool CpuDevice::supports(OpCode code, DType dtype) const {
  return dtype != DType::kInt32 && code != OpCode::kCount;
}

std::byte* CpuDevice::reserve(Bytes size) {
  return PageBuffer(static_cast<std::size_t>(size.value)).release();
}

void CpuDevice::release(std::byte* memory, Bytes size) noexcept {
  unmap_pages(memory, static_cast<std::size_t>(size.value));
}

void CpuDevice::run(const KernelCall& call, const KernelContext& context) {
  if (call.dtype == DType::kFloat64) {
    run_kernel<double>(call, state_, context);
  } else if (is_half(call.dtype)) {
    run_widened(call, state_.widened, state_, context);
  } else {
    run_kernel<float>(call, state_, context);
  }
}

void CpuDevice::run(const AdamCall& call, const KernelContext& context) {
  if (call.scales_loss && !std::isfinite(call.gradient->squared_norm)) return;
  if (call.dtype == DType::kFloat64) {
    adam<double>(call, context);
  } else {
    adam<float>(call, context);
  }
  if (call.rounded.data == nullptr) return;
  round_into(call.rounded, reinterpret_cast<const float*>(call.parameters), context);
}

void CpuDevice::run(const NormCall& call, const KernelContext& context) {
  *call.squared_norm =
      call.dtype == DType::kFloat64
          ? squared_norm(reinterpret_cast<const double*>(call.gradients), call.ranges, context)
          : squared_norm(reinterpret_cast<const float*>(call.gradients), call.ranges, context);
}

void CpuDevice::run(const LossScaleCall& call) {
  GradientState& gradient = *call.gradient;
  const bool finite = std::isfinite(gradient.squared_norm);
  if (finite) ++gradient.updates;
  if (call.scaling->growth_interval == 0) return;
  if (!finite) {
    gradient.loss_scale *= 0.5;
    gradient.clean_steps = 0;
  } else if (++gradient.clean_steps == call.scaling->growth_interval) {
    gradient.loss_scale *= 2.0;
    gradient.clean_steps = 0;
  }
}

void CpuDevice::copy_from_host(std::byte* to, const std::byte* host, Bytes size) {
  std::memcpy(to, host, static_cast<std::size_t>(size.value));
}

void CpuDevice::copy_to_host(std::byte* host, const std::byte* from, Bytes size) {
  std::memcpy(host, from, static_cast<std::size_t>(size.value));
}

std::unique_ptr<Device> make_cpu_device(int threads) {
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace parplan::hw
