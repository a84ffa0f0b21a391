// Every statement about communicators, over MPI: mpiexec -n N mpi_comm_test [name of one check]
#include <cstdio>
#include <exception>
#include <string>
#include <variant>

#include "tests/hw/comm_checks.hpp"

int main(int argc, char** argv) {
  using namespace parplan::hw;
  WorldOptions options;
  options.segment_bytes = 4096;  // moderate sizes go through many segments
  try {
    auto opened = open_mpi_world(options);
    if (const auto* unavailable = std::get_if<Unavailable>(&opened)) {
      std::fprintf(stderr, "no MPI: %s\n", unavailable->reason.c_str());
      return 1;
    }
    World& world = *std::get<std::unique_ptr<World>>(opened);
    int run = 0;
    for (const test::CommCheck& check : test::comm_checks()) {
      if (argc > 1 && check.name != argv[1]) {
        continue;
      }
      const auto begin = Clock::now();
      check.run(world);
      world.barrier();
      ++run;
      if (world.rank() == 0) {
        const std::chrono::duration<double> elapsed = Clock::now() - begin;
        std::printf("passed with %d ranks in %.3f s: %s\n", world.size(), elapsed.count(),
                    check.name.c_str());
      }
    }
    test::demand(world, run > 0, "no such check");
    world.finish();
  } catch (const std::exception& error) {
    abort_world(1, error.what());
  }
  return 0;
}
