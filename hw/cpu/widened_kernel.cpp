#include "hw/cpu/widened_kernel.hpp"

#include <algorithm>
#include <array>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/cpu_device.hpp"
#include "hw/half.hpp"
#include "sim/core/error.hpp"
#include "sim/core/resident_memory.hpp"

namespace parplan::hw {
namespace {

/// A 16-bit operand and its place among the widened ones.
struct Widened {
  const std::byte* data = nullptr;
  std::int64_t count = 0;
  std::int64_t place = 0;  ///< floats from the start of the scratch
  bool read = false;       ///< its values matter to the kernel
};

class Operands {
 public:
  explicit Operands(const KernelCall& call) : type_(call.dtype) {
    for (const ConstElements& input : call.inputs) add(input, true);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) add(call.outputs[i], call.accumulate[i]);
  }

  std::int64_t floats() const { return next_; }

  void widen_into(float* scratch, const KernelContext& context) const {
    for (std::size_t k = 0; k < count_; ++k) {
      const Widened& w = all_[k];
      if (!w.read) continue;
      for_each_block({1, w.count}, context, [&](const Block& block) {
        widen(scratch + w.place + block.col, w.data + block.col * bytes_of(type_), type_,
              block.cols);
      });
    }
  }

  /// The operand's widened place; itself where it is not of 16 bits.
  template <class View>
  View widened(const View& operand, float* scratch) const {
    if (!is_half(operand.type) || operand.data == nullptr) return operand;
    return {reinterpret_cast<std::byte*>(scratch + find(operand.data)->place), operand.count,
            DType::kFloat32};
  }

  const Widened* find(const std::byte* data) const {
    const auto* end = all_.data() + count_;
    const auto* found =
        std::find_if(all_.data(), end, [data](const Widened& w) { return w.data == data; });
    return found == end ? nullptr : found;
  }

 private:
  void add(const ConstElements& operand, bool read) {
    if (operand.data == nullptr || !is_half(operand.type)) return;
    ensure(operand.type == type_, "an operation has one 16-bit type");
    const auto count = static_cast<std::int64_t>(operand.count);
    if (const Widened* known = find(operand.data)) {
      ensure(known->count == count, "operands that share memory are the same tensor");
      all_[static_cast<std::size_t>(known - all_.data())].read |= read;
      return;
    }
    all_[count_++] = {operand.data, count, next_, read};
    next_ += widened_place(count);
  }

  DType type_;
  std::array<Widened, 9> all_{};
  std::size_t count_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace

float* WideningScratch::floats(std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  if (buffer_.size() < bytes) {
    buffer_ = PageBuffer();  // the smaller one goes first
    buffer_ = PageBuffer(bytes);
  }
  return reinterpret_cast<float*>(buffer_.data());
}

void round_into(const Elements& to, const float* from, const KernelContext& context) {
  for_each_block({1, static_cast<std::int64_t>(to.count)}, context, [&](const Block& block) {
    narrow(to.data + block.col * bytes_of(to.type), to.type, from + block.col, block.cols);
  });
}

void run_widened(const KernelCall& call, WideningScratch& scratch, KernelState& state,
                 const KernelContext& context) {
  const Operands operands(call);
  float* const floats = scratch.floats(operands.floats());
  operands.widen_into(floats, context);
  KernelCall wide = call;
  wide.dtype = DType::kFloat32;
  for (ConstElements& input : wide.inputs) input = operands.widened(input, floats);
  for (Elements& output : wide.outputs) output = operands.widened(output, floats);
  run_kernel<float>(wide, state, context);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const Elements& output = call.outputs[i];
    if (output.data == nullptr || !is_half(output.type)) continue;
    round_into(output, reinterpret_cast<const float*>(wide.outputs[i].data), context);
  }
}

}  // namespace parplan::hw
