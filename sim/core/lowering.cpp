#include <algorithm>
#include <set>
#include <string>

#include "sim/core/class_lowering.hpp"
#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/plan.hpp"
#include "sim/core/step_lowering.hpp"

namespace parplan {
namespace {

void refuse_broken_layout(const Model& model, const Workload& workload, const Layout& layout) {
  const std::vector<Refusal> refusals = check_layout(model, workload, layout);
  if (refusals.empty()) return;
  std::string message = "layout " + shortened(to_string(layout), 80) + " cannot train model " +
                        quoted_name(model.name) + ":";
  for (const Refusal& r : refusals) message += " " + r.reason + " (try " + r.suggestion + ");";
  message.pop_back();
  throw InputError(message);
}

/// One chunk per stage; for mp maximal runs of consecutive layers on one device.
std::vector<Chunk> chunks_of(const Model& model, const Layout& layout) {
  std::vector<Chunk> chunks;
  if (layout.mp > 1) {
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      const int device = layout.layer_devices[l];
      if (chunks.empty() || chunks.back().position != device) {
        chunks.push_back({device, LayerId{l}, 0});
      }
      ++chunks.back().count;
    }
    return chunks;
  }
  if (layout.pp == 1) return {{0, LayerId{0}, static_cast<std::uint32_t>(model.layers.size())}};
  std::size_t first = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const auto count = static_cast<std::uint32_t>(layout.stage_layers[stage]);
    chunks.push_back({stage, LayerId{first}, count});
    first += count;
  }
  return chunks;
}

std::vector<int> chunk_of_ops(const Model& model, const std::vector<Chunk>& chunks) {
  std::vector<int> result;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (std::uint32_t l = 0; l < chunks[c].count; ++l) {
      result.insert(result.end(), model.layers[chunks[c].first.index + l].count,
                    static_cast<int>(c));
    }
  }
  return result;
}

std::vector<bool> values_needing_gradient(const Model& model) {
  std::vector<bool> needs(model.values.size());
  for (const Op& op : model.ops) {
    bool any = !op.parameters.empty();
    for (const ValueId v : op.inputs) any = any || needs[v.index];
    needs[op.output.index] = any;
  }
  return needs;
}

std::vector<ValueTransfer> transfers_of(const LoweringContext& context) {
  std::vector<ValueTransfer> transfers;
  std::set<std::pair<std::uint32_t, int>> known;  // (value, to)
  for (std::size_t i = 0; i < context.model.ops.size(); ++i) {
    const int chunk = context.op_chunks[i];
    const int to = context.chunks[chunk].position;
    for (const ValueId v : context.model.ops[i].inputs) {
      const auto producer = context.producers[v.index];
      if (!producer) continue;
      const int from_chunk = context.op_chunks[producer->index];
      const int from = context.chunks[from_chunk].position;
      if (from != to && known.insert({v.index, to}).second) {
        transfers.push_back({v, from, to, from_chunk, chunk});
      }
    }
  }
  return transfers;
}

}  // namespace

Program lower(const Model& model, const Workload& workload, const Layout& wanted,
              const Stack& stack) {
  const Layout layout = place_layers(model, workload, wanted);
  refuse_broken_layout(model, workload, layout);
  std::vector<std::string> problems;
  const TensorSharding sharding(model, layout.tp, problems);
  LoweringContext context{model, workload, layout, sharding};
  context.microbatch_samples = workload.global_batch / layout.dp / layout.microbatches;
  context.chunks = chunks_of(model, layout);
  context.op_layers = layer_of_ops(model);
  context.producers = producer_of_values(model);
  context.op_chunks = chunk_of_ops(model, context.chunks);
  context.needs_gradient = values_needing_gradient(model);
  context.transfers = transfers_of(context);

  Program program;
  program.layout = layout;
  program.precision = workload.precision;
  program.microbatch_samples = context.microbatch_samples;
  program.chunks = context.chunks;
  std::vector<LoweredClass> classes;
  for (int position = 0; position < layout.positions(); ++position) {
    classes.push_back(lower_class(context, position));
  }
  lower_step(context, stack, classes);
  for (LoweredClass& lowered : classes) program.classes.push_back(std::move(lowered.rank_class));
  return program;
}

}  // namespace parplan
