// Ranks that fail in the given way; tests/hw/mpi_failure_test.sh says what must come of it.
//   mpiexec -n N mpi_failure MODE
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "hw/world.hpp"

namespace {

using namespace parplan::hw;

constexpr int kFailing = 1;
constexpr int kStepsBefore = 3;
constexpr int kSteps = 1000;

void fail(const std::string& mode, World& world) {
  if (mode == "throw") {
    throw std::runtime_error("disk full");
  }
  if (mode == "exit") {
    std::exit(0);
  }
  if (mode == "_exit") {
    _exit(0);
  }
  if (mode == "kill") {
    std::raise(SIGKILL);
  }
  if (mode == "segv") {
    std::raise(SIGSEGV);
  }
  if (mode == "stop") {
    std::raise(SIGSTOP);
  }
  if (mode == "count") {
    std::vector<float> data(999);
    world.all().all_reduce_sum(data).wait();
  }
  if (mode == "size") {
    std::vector<float> data(7);
    world.all().receive(data, 0, 1).wait();
  }
  if (mode == "busy") {  // alive, but never comes back
    while (true) {
      sleep(1);
    }
  }
}

// "return": the failing rank leaves main's scope; "finish": it believes that it is done.
int run(const std::string& mode) {
  WorldOptions options;
  options.wait.timeout = std::chrono::seconds(mode == "busy" ? 2 : 60);
  options.wait.dead_peer_grace = std::chrono::seconds(2);
  auto opened = open_mpi_world(options);
  if (const auto* unavailable = std::get_if<Unavailable>(&opened)) {
    std::fprintf(stderr, "no MPI: %s\n", unavailable->reason.c_str());
    return 1;
  }
  World& world = *std::get<std::unique_ptr<World>>(opened);
  std::vector<float> data(100000, 1.0F);
  for (int step = 0; step < kSteps; ++step) {
    if (step == kStepsBefore && world.rank() == kFailing) {
      if (mode == "return") {
        return 0;
      }
      if (mode == "finish") {
        break;
      }
      fail(mode, world);
    }
    if (step == kStepsBefore && mode == "size" && world.rank() == 0) {
      world.all().send(data, kFailing, 1).wait();
    }
    world.all().all_reduce_sum(data).wait();
  }
  world.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    abort_world(3, error.what());
  }
}
