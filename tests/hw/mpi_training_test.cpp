// Training over MPI against the single process, every layout of as many ranks as there are:
// mpiexec -n N mpi_training_test
#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "hw/world.hpp"
#include "sim/core/error.hpp"
#include "tests/hw/small_models.hpp"
#include "tests/hw/training.hpp"

namespace {

using namespace parplan;
using namespace parplan::hw;

std::vector<std::string> layouts_of(int ranks) {
  switch (ranks) {
    case 1:
      return {"dp=1,microbatches=4"};
    case 2:
      return {"dp=2", "tp=2", "pp=2,schedule=gpipe,microbatches=4",
              "pp=2,schedule=1f1b,microbatches=8", "mp=2"};
    case 4:
      return {"dp=2,tp=2", "dp=2,pp=2,schedule=1f1b,microbatches=4",
              "tp=2,pp=2,schedule=1f1b,microbatches=4", "dp=2,mp=2"};
    case 8:
      return {"dp=2,tp=2,pp=2,schedule=1f1b,microbatches=2"};
    default:
      throw InputError("mpi_training_test has layouts for 1, 2, 4 and 8 ranks, not " +
                       std::to_string(ranks));
  }
}

void check_model(World& world, const Model& model, const Workload& workload) {
  RunResult single;
  if (world.rank() == 0) single = train_twenty(model, workload, "dp=1");
  RunOptions options;
  options.steps = 20;
  options.snapshot_after = {1, 20};
  options.trace_steps = 5;
  for (const std::string& layout : layouts_of(world.size())) {
    const RunResult run = run_plan(world, small_plan(model, workload, layout), options);
    if (world.rank() != 0) continue;
    const std::string difference = first_difference(run, single, 1e-10);
    if (!difference.empty()) {
      throw InternalError(model.name + " with " + layout + ": " + difference);
    }
    std::printf("%s with %s: same numbers, %zu events\n", model.name.c_str(), layout.c_str(),
                run.trace.events.size());
  }
}

}  // namespace

int main() {
  try {
    auto opened = open_mpi_world({});
    if (const auto* unavailable = std::get_if<Unavailable>(&opened)) {
      std::fprintf(stderr, "no MPI: %s\n", unavailable->reason.c_str());
      return 1;
    }
    World& world = *std::get<std::unique_ptr<World>>(opened);
    check_model(world, small_gpt2(0.1), reference_workload(8, 16));
    if (world.size() <= 4) {  // eight ranks take turns on few cores
      check_model(world, small_encoder_decoder(0.1), reference_workload(8, 10, 12));
      check_model(world, small_llama(true), reference_workload(8, 16));
    }
    world.finish();
  } catch (const std::exception& error) {
    abort_world(1, error.what());
  }
  return 0;
}
