#include "tools/report/plan_graph.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "sim/core/resident_memory.hpp"
#include "tools/report/markup.hpp"
#include "tools/units_text.hpp"

namespace parplan::tools {
namespace {

constexpr std::size_t kSmallestGroup = 3;

std::string dot_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : well_formed(text)) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// Layers of one position that are drawn as one node.
struct Group {
  int position = 0;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// "36", "43.9 M".
std::string count_text(std::int64_t count) {
  return count < 1000 ? std::to_string(count) : text_of_count(static_cast<double>(count));
}

class PlanGraph {
 public:
  explicit PlanGraph(const Plan& plan) : model_(plan.model), program_(lower(plan)) {
    layer_of_op_ = layer_of_ops(model_);
    producers_ = producer_of_values(model_);
    group_of_layer_.resize(model_.layers.size());
    for (const Chunk& chunk : program_.chunks) group(chunk);
  }

  std::string text() {
    out_ = "digraph plan {\n";
    out_ += "  rankdir=LR;\n  fontname=\"sans-serif\";\n  fontsize=12;\n  bgcolor=transparent;\n";
    out_ +=
        "  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\", "
        "fontsize=12];\n";
    out_ += "  edge [fontname=\"sans-serif\", fontsize=10];\n";
    for (std::size_t p = 0; p < program_.classes.size(); ++p) cluster(static_cast<int>(p));
    edges_inside();
    edges_between();
    edges_of_tied_parameters();
    return out_ + "}\n";
  }

 private:
  /// What makes layers equal: their operations and the shapes of their parameters, by name.
  std::vector<std::string> signature(std::uint32_t layer) const {
    std::vector<std::string> parts;
    const Layer& l = model_.layers[layer];
    for (std::uint32_t i = 0; i < l.count; ++i) {
      const Op& op = model_.ops[l.first.index + i];
      std::string part = op.name + ":" + std::string(kind_name(op.body));
      for (const ParameterId id : op.parameters) {
        const Parameter& p = model_.parameter(id);
        part += ":" + std::to_string(p.rows) + "x" + std::to_string(p.columns);
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }

  void group(const Chunk& chunk) {
    const std::uint32_t end = chunk.first.index + chunk.count;
    for (std::uint32_t layer = chunk.first.index; layer < end;) {
      std::uint32_t next = layer + 1;
      const auto like = signature(layer);
      while (next < end && signature(next) == like) ++next;
      if (next - layer < kSmallestGroup) next = layer + 1;
      for (std::uint32_t l = layer; l < next; ++l) group_of_layer_[l] = groups_.size();
      groups_.push_back({chunk.position, layer, next - layer});
      layer = next;
    }
  }

  std::int64_t parameters_of(std::uint32_t layer) const {
    std::set<ParameterId> seen;
    std::int64_t count = 0;
    const Layer& l = model_.layers[layer];
    for (std::uint32_t i = 0; i < l.count; ++i) {
      for (const ParameterId id : model_.ops[l.first.index + i].parameters) {
        if (seen.insert(id).second) count += model_.parameter(id).elements();
      }
    }
    return count;
  }

  static std::string node(std::size_t group) { return "n" + std::to_string(group); }

  void add_node(std::size_t g) {
    const Group& group = groups_[g];
    const std::string count = count_text(parameters_of(group.first));
    std::string label = model_.layers[group.first].name;
    if (group.count > 1) {
      label += " \xE2\x80\xA6 " + model_.layers[group.first + group.count - 1].name + "\n" +
               std::to_string(group.count) + " layers of " + count + " parameters";
    } else {
      label += "\n" + count + " parameters";
    }
    out_ += "    " + node(g) + " [label=" + dot_string(label) +
            (group.count > 1 ? ", class=\"layer group\", peripheries=2" : ", class=\"layer\"") +
            "];\n";
  }

  void cluster(int position) {
    out_ +=
        "  subgraph cluster_" + std::to_string(position) + " {\n    class=\"position\";\n" +
        "    style=rounded;\n    labeljust=l;\n    label=" + dot_string(cluster_label(position)) +
        ";\n";
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].position == position) add_node(g);
    }
    out_ += "  }\n";
  }

  std::string cluster_label(int position) const {
    const Layout& layout = program_.layout;
    const RankClass& c = program_.classes[position];
    const int width = layout.dp * layout.tp;
    const int first = position * width;
    std::string label = layout.pp > 1   ? "stage " + std::to_string(position) + ": "
                        : layout.mp > 1 ? "device " + std::to_string(position) + ": "
                                        : "";
    label += width == 1 ? "rank " + std::to_string(first)
                        : "ranks " + std::to_string(first) + "\xE2\x80\x93" +
                              std::to_string(first + width - 1);
    if (layout.dp > 1) label += ", dp " + std::to_string(layout.dp);
    if (layout.tp > 1) label += ", tp " + std::to_string(layout.tp);
    const FlatBuffers flat = flat_buffers(c.flat_elements, program_.precision);
    std::int64_t local = 0;
    for (const ParameterShard& p : c.parameters) local += p.local_rows * p.local_columns;
    label += "\nper rank " + count_text(local) +
             " parameters; with gradients and optimizer state " +
             text_of(flat.parameters + flat.gradients + flat.optimizer_state());
    if (layout.dp > 1) {
      label += "\ndp: all-reduce of " + text_of(flat.gradients) + " in " +
               std::to_string(c.buckets.size()) + (c.buckets.size() == 1 ? " bucket" : " buckets");
    }
    return label + tensor_collectives(c);
  }

  static std::string tensor_collectives(const RankClass& c) {
    std::int64_t count = 0;
    Bytes bytes;
    for (const Instruction& i : c.instructions) {
      if (i.kind != InstructionKind::kRun) continue;
      for (std::int32_t o = i.op_begin; o < i.op_end; ++o) {
        const Operation& operation = c.bodies[i.body].operations[o];
        if (!is_tensor_collective(operation.code)) continue;
        ++count;
        bytes += operation.bytes;
      }
    }
    if (count == 0) return {};
    return "\ntp: " + std::to_string(count) + " collectives of " + text_of(bytes) + " together";
  }

  void edges_inside() {
    std::set<std::pair<std::size_t, std::size_t>> edges;
    for (std::uint32_t o = 0; o < model_.ops.size(); ++o) {
      const std::size_t to = group_of_layer_[layer_of_op_[o].index];
      for (const ValueId value : model_.ops[o].inputs) {
        const auto& producer = producers_[value.index];
        if (!producer) continue;
        const std::size_t from = group_of_layer_[layer_of_op_[producer->index].index];
        if (from != to && groups_[from].position == groups_[to].position) edges.emplace(from, to);
      }
    }
    for (const auto& [from, to] : edges) out_ += "  " + node(from) + " -> " + node(to) + ";\n";
  }

  struct Transfer {
    Bytes bytes;
    std::int64_t forward = 0;  ///< messages per step
    std::int64_t backward = 0;
  };

  /// Sends of the program, by (from, to, value); gradients are counted with their activation.
  std::map<std::tuple<int, int, std::uint32_t>, Transfer> transfers() const {
    std::map<std::tuple<int, int, std::uint32_t>, Transfer> found;
    for (const RankClass& c : program_.classes) {
      for (const Instruction& i : c.instructions) {
        if (i.kind != InstructionKind::kSend) continue;
        const std::uint32_t id = i.key.op();
        const bool forward = i.key.phase() == Phase::kSendActivation;
        Transfer& t = forward ? found[{c.position, i.peer, id}] : found[{i.peer, c.position, id}];
        t.bytes = i.bytes;
        ++(forward ? t.forward : t.backward);
      }
    }
    return found;
  }

  void edges_between() {
    for (const auto& [where, transfer] : transfers()) {
      const auto& [from, to, value] = where;
      std::string label = model_.values[value].name + "\n";
      label +=
          transfer.forward == transfer.backward
              ? std::to_string(transfer.forward) + " \xC3\x97 " + text_of(transfer.bytes) +
                    " each way"
              : std::to_string(transfer.forward) + " \xC3\x97 " + text_of(transfer.bytes) +
                    (transfer.backward == 0
                         ? " forward"
                         : " forward, " + std::to_string(transfer.backward) + " \xC3\x97 back");
      out_ += "  " + node(tail_of(from, value)) + " -> " + node(head_of(to, value)) +
              " [label=" + dot_string(label) + ", class=\"transfer\", penwidth=2" +
              (transfer.backward > 0 ? ", dir=both" : "") + "];\n";
    }
  }

  /// The producer when it is at `position`, else the position's last node.
  std::size_t tail_of(int position, std::uint32_t value) const {
    if (const auto& producer = producers_[value]) {
      const std::size_t g = group_of_layer_[layer_of_op_[producer->index].index];
      if (groups_[g].position == position) return g;
    }
    std::size_t last = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      last = groups_[g].position == position ? g : last;
    return last;
  }

  /// The first use at `position`, else the position's first node.
  std::size_t head_of(int position, std::uint32_t value) const {
    std::optional<std::size_t> first;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].position != position) continue;
      if (!first) first = g;
      if (uses(groups_[g], value)) return g;
    }
    return first.value_or(0);
  }

  bool uses(const Group& group, std::uint32_t value) const {
    for (std::uint32_t l = group.first; l < group.first + group.count; ++l) {
      for (std::uint32_t i = 0; i < model_.layers[l].count; ++i) {
        for (const ValueId input : model_.ops[model_.layers[l].first.index + i].inputs) {
          if (input.index == value) return true;
        }
      }
    }
    return false;
  }

  void edges_of_tied_parameters() {
    std::set<std::pair<std::uint32_t, std::vector<std::int32_t>>> seen;
    for (const RankClass& c : program_.classes) {
      for (const Instruction& i : c.instructions) {
        if (i.kind != InstructionKind::kReduceTied || i.group_positions.size() < 2) continue;
        const std::uint32_t parameter = i.key.op();
        if (!seen.emplace(parameter, i.group_positions).second) continue;
        const bool known = parameter < model_.parameters.size();
        const std::string label =
            "tied " + (known ? model_.parameters[parameter].name : std::to_string(parameter)) +
            "\nall-reduce of " + text_of(i.bytes);
        for (std::size_t p = 1; p < i.group_positions.size(); ++p) {
          out_ += "  " + node(user_of(i.group_positions[p - 1], parameter)) + " -> " +
                  node(user_of(i.group_positions[p], parameter)) + " [label=" + dot_string(label) +
                  ", class=\"tied\", style=dashed, dir=both, constraint=false];\n";
        }
      }
    }
  }

  std::size_t user_of(int position, std::uint32_t parameter) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].position != position) continue;
      for (std::uint32_t l = groups_[g].first; l < groups_[g].first + groups_[g].count; ++l) {
        for (std::uint32_t i = 0; i < model_.layers[l].count; ++i) {
          const Op& op = model_.ops[model_.layers[l].first.index + i];
          for (const ParameterId id : op.parameters) {
            if (id.index == parameter) return g;
          }
        }
      }
    }
    return head_of(position, 0);
  }

  const Model& model_;
  Program program_;
  std::vector<LayerId> layer_of_op_;
  std::vector<std::optional<OpId>> producers_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_layer_;
  std::string out_;
};

}  // namespace

std::string plan_dot(const Plan& plan) { return PlanGraph(plan).text(); }

}  // namespace parplan::tools
