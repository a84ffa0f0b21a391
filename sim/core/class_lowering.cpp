#include "sim/core/class_lowering.hpp"

#include <algorithm>

#include "sim/core/class_emitter.hpp"

namespace parplan {
namespace {

std::vector<int> chunks_of(const LoweringContext& context, int position) {
  std::vector<int> own;
  for (std::size_t c = 0; c < context.chunks.size(); ++c) {
    if (context.chunks[c].position == position) own.push_back(static_cast<int>(c));
  }
  return own;
}

struct OpRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

OpRange ops_of(const LoweringContext& context, int chunk) {
  const Chunk& c = context.chunks[chunk];
  const auto& layers = context.model.layers;
  const Layer& last = layers[c.first.index + c.count - 1];
  return {layers[c.first.index].first.index, last.first.index + last.count};
}

/// Values whose gradient this position must send once `chunk`'s backward is done: made elsewhere,
/// and `chunk` is the first (so in backward the last) of its users here.
std::vector<ValueTransfer> gradients_leaving(const LoweringContext& context, int position,
                                             int chunk) {
  std::vector<ValueTransfer> leaving;
  for (const ValueTransfer& t : context.transfers) {
    if (t.to == position && t.first_chunk == chunk && context.needs_gradient[t.value.index]) {
      leaving.push_back(t);
    }
  }
  return leaving;
}

void emit_backward(const LoweringContext& context, ClassEmitter& emitter, int position, int chunk) {
  emitter.open_body(BodyKind::kBackward, chunk);
  for (const ValueTransfer& t : context.transfers) {
    if (t.from == position && t.from_chunk == chunk && context.needs_gradient[t.value.index]) {
      emitter.take_received_gradient(t.value, t.to);
    }
  }
  const OpRange range = ops_of(context, chunk);
  for (std::size_t i = range.end; i > range.begin; --i) emitter.backward(OpId{i - 1});
  for (const ValueTransfer& t : gradients_leaving(context, position, chunk)) {
    emitter.finish_gradient(t.value);
  }
}

bool is_flat(const Tensor& tensor) {
  return tensor.kind == TensorKind::kParameter || tensor.kind == TensorKind::kGradient;
}

/// Sets when operations allocate and free tensors: from the first output to the last use, sends
/// included. Tensors that arrive from elsewhere are allocated by their receive.
class Lifetimes {
 public:
  Lifetimes(LoweredClass& lowered, std::vector<bool> leaves, std::vector<bool> received)
      : lowered_(lowered), leaves_(std::move(leaves)), arrived_(std::move(received)) {}

  void assign() {
    RankClass& c = lowered_.rank_class;
    lowered_.last_use.assign(c.tensors.size(), std::nullopt);
    for (std::size_t b = 0; b < c.bodies.size(); ++b) {
      auto& operations = c.bodies[b].operations;
      for (std::size_t o = 0; o < operations.size(); ++o) {
        note(operations[o], {static_cast<int>(b), static_cast<int>(o)});
      }
    }
    for (std::size_t t = 0; t < c.tensors.size(); ++t) {
      const auto& last = lowered_.last_use[t];
      if (!last || is_flat(c.tensors[t]) || leaves_[t]) continue;
      c.bodies[last->body].operations[last->operation].frees.push_back(TensorId{t});
    }
  }

 private:
  void note(Operation& operation, WorkPoint point) {
    for (const TensorId t : operation.inputs) {
      arrived_[t.index] = true;
      lowered_.last_use[t.index] = point;
    }
    for (const Output& output : operation.outputs) {
      const std::uint32_t t = output.tensor.index;
      if (!arrived_[t] && !is_flat(lowered_.rank_class.tensors[t])) {
        operation.allocates.push_back(output.tensor);
      }
      arrived_[t] = true;
      lowered_.last_use[t] = point;
    }
    if (operation.workspace) {
      operation.allocates.push_back(*operation.workspace);
      lowered_.last_use[operation.workspace->index] = point;
    }
  }

  LoweredClass& lowered_;
  std::vector<bool> leaves_;   ///< per tensor: freed by the instruction list
  std::vector<bool> arrived_;  ///< per tensor: received, or written by an operation so far
};

/// Tensors whose last use is a send: the instruction list frees them.
std::vector<bool> tensors_leaving_last(const LoweringContext& context, const LoweredClass& lowered,
                                       int position) {
  std::vector<bool> leaves(lowered.rank_class.tensors.size());
  for (const auto& [value, tensor] : lowered.sent_gradients) leaves[tensor.index] = true;
  for (const ValueTransfer& t : context.transfers) {
    if (t.from != position) continue;
    const TensorId tensor = *lowered.value_tensors[t.value.index];
    bool used_in_backward = false;
    for (const Body& body : lowered.rank_class.bodies) {
      if (body.kind != BodyKind::kBackward && body.chunk <= t.from_chunk) continue;
      for (const Operation& operation : body.operations) {
        used_in_backward |=
            std::count(operation.inputs.begin(), operation.inputs.end(), tensor) > 0;
      }
    }
    leaves[tensor.index] = !used_in_backward;
  }
  return leaves;
}

std::vector<bool> tensors_received(const LoweringContext& context, const LoweredClass& lowered,
                                   int position) {
  std::vector<bool> received(lowered.rank_class.tensors.size());
  for (const auto& [source, tensor] : lowered.received_gradients) received[tensor.index] = true;
  for (const ValueTransfer& t : context.transfers) {
    if (t.to == position) received[lowered.value_tensors[t.value.index]->index] = true;
  }
  return received;
}

}  // namespace

LoweredClass lower_class(const LoweringContext& context, int position) {
  ClassEmitter emitter(context, position);
  const std::vector<int> own = chunks_of(context, position);
  for (const int chunk : own) {
    emitter.open_body(BodyKind::kForward, chunk);
    const OpRange range = ops_of(context, chunk);
    for (std::size_t i = range.begin; i < range.end; ++i) emitter.forward(OpId{i});
  }
  for (auto chunk = own.rbegin(); chunk != own.rend(); ++chunk) {
    emit_backward(context, emitter, position, *chunk);
  }
  std::map<std::uint32_t, TensorId> sent;
  for (const int chunk : own) {
    for (const ValueTransfer& t : gradients_leaving(context, position, chunk)) {
      sent[t.value.index] = emitter.final_gradient(t.value);
    }
  }
  LoweredClass lowered = emitter.take();
  lowered.sent_gradients = std::move(sent);
  Lifetimes(lowered, tensors_leaving_last(context, lowered, position),
            tensors_received(context, lowered, position))
      .assign();
  return lowered;
}

}  // namespace parplan
