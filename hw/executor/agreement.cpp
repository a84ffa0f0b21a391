#include "hw/executor/agreement.hpp"

#include <sstream>
#include <utility>

#include "hw/random.hpp"
#include "sim/core/error.hpp"
#include "sim/core/plan_json.hpp"

namespace parplan::hw {
namespace {

/// Hashes what the ranks of a group must share for their messages to fit.
class ProgramHash {
 public:
  std::uint64_t of(const Program& program) {
    for (const RankClass& rank_class : program.classes) add(rank_class);
    return hash_;
  }

 private:
  void add(std::uint64_t word) { hash_ = splitmix64(hash_ ^ word); }
  void add_number(std::int64_t number) { add(static_cast<std::uint64_t>(number)); }

  void add(const RankClass& rank_class) {
    add_number(rank_class.flat_elements);
    for (const Tensor& tensor : rank_class.tensors) {
      add_number(static_cast<int>(tensor.kind));
      add_number(static_cast<int>(tensor.dtype));
      add_number(tensor.rows);
      add_number(tensor.columns);
      add_number(tensor.flat_offset);
    }
    for (const Body& body : rank_class.bodies) {
      for (const parplan::Operation& operation : body.operations) {
        add_number(static_cast<int>(operation.code));
        add(operation.op.index);
        for (const TensorId input : operation.inputs) add(input.index);
        for (const Output& output : operation.outputs) add(output.tensor.index);
      }
    }
    for (const Instruction& instruction : rank_class.instructions) {
      add(instruction.key.packed);
      add_number(static_cast<int>(instruction.kind));
      add_number(instruction.peer);
      add_number(instruction.flat_begin);
      add_number(instruction.flat_end);
      for (const std::uint32_t wait : instruction.waits) add(wait);
    }
  }

  std::uint64_t hash_ = 0;
};

/// One "name<tab>value" line per fact.
std::string facts(const Plan& plan, const Program& program, const RunOptions& options) {
  const Workload& w = plan.workload;
  std::ostringstream text;
  const auto fact = [&text](const char* name, const auto& value) {
    text << name << '\t' << value << '\n';
  };
  fact("model", plan.model.name);
  fact("layout", to_string(program.layout));
  fact("global batch", w.global_batch);
  fact("sequence", w.sequence);
  fact("precision", name_of(w.precision));
  fact("seed", w.seed);
  fact("plan digest", digest_of(plan));
  fact("lowered program", ProgramHash().of(program));
  fact("steps", options.steps.value_or(0));
  fact("epochs", options.epochs);
  fact("traced steps", options.trace_steps);
  fact("snapshots", options.snapshot_after.size());
  return text.str();
}

/// The first fact in which two lists of lines differ.
std::string difference(const std::string& first, const std::string& other, std::size_t rank) {
  std::istringstream a(first);
  std::istringstream b(other);
  std::string line_a;
  std::string line_b;
  while (std::getline(a, line_a) && std::getline(b, line_b)) {
    if (line_a == line_b) continue;
    const std::size_t tab = line_a.find('\t');
    return "rank 0 and rank " + std::to_string(rank) +
           " were not given the same run: " + line_a.substr(0, tab) + " is '" +
           line_a.substr(tab + 1) + "' on rank 0 and '" +
           line_b.substr(std::min(tab + 1, line_b.size())) + "' on rank " + std::to_string(rank);
  }
  return {};
}

std::string judge(const std::vector<std::string>& all, int world_size, const Layout& layout) {
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) return difference(all[0], all[rank], rank);
  }
  if (world_size == layout.ranks()) return {};
  return "the plan's layout " + to_string(layout) + " needs " + std::to_string(layout.ranks()) +
         " ranks, the job has " + std::to_string(world_size);
}

}  // namespace

void check_agreement(World& world, const Plan& plan, const Program& program,
                     const RunOptions& options) {
  const std::vector<std::string> all = world.gather(facts(plan, program, options));
  std::string verdict;
  if (world.rank() == 0) verdict = judge(all, world.size(), program.layout);
  verdict = world.broadcast(verdict);
  if (!verdict.empty()) throw InputError(verdict);
}

}  // namespace parplan::hw
