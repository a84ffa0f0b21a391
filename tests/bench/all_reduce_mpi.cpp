// Our all-reduce beside MPI_Allreduce, in one run, turn by turn, on the ranks it is started with:
//   mpiexec --bind-to none -n 2 all_reduce_mpi [--segment BYTES] [--seconds S] [BYTES...]
// Every line: the smallest and the median time of the slowest rank, in microseconds, and algbw
// (bytes over the smallest time). Both work in place on the same buffers, checked once.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "hw/world.hpp"

namespace {

using namespace parplan::hw;

struct Samples {
  std::vector<double> seconds;

  [[nodiscard]] double smallest() const {
    return *std::min_element(seconds.begin(), seconds.end());
  }
  [[nodiscard]] double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

double slowest(double seconds) {
  double result = 0.0;
  MPI_Allreduce(&seconds, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

// Small calls are repeated within a sample: the clock and the barrier would drown them.
template <class Call>
double sample(int repeats, const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < repeats; ++i) {
    call();
  }
  return slowest((MPI_Wtime() - begin) / repeats);
}

void check(World& world, std::vector<float>& data) {
  std::fill(data.begin(), data.end(), static_cast<float>(world.rank() + 1));
  world.all().all_reduce_sum(data).wait();
  const auto n = static_cast<float>(world.size());
  if (data.front() != n * (n + 1) / 2 || data.back() != data.front()) {
    throw std::runtime_error("wrong sum");
  }
}

void measure(World& world, std::size_t bytes, double seconds) {
  std::vector<float> data(bytes / sizeof(float));
  const auto count = static_cast<int>(data.size());
  check(world, data);
  std::fill(data.begin(), data.end(), 0.0F);
  const auto ours = [&] { world.all().all_reduce_sum(data).wait(); };
  const auto theirs = [&] {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  const double once = std::max(sample(3, ours), sample(3, theirs));
  const double small_sample = 1e-3;
  int plan[2] = {std::max(1, static_cast<int>(small_sample / once)), 0};
  plan[1] = std::clamp(static_cast<int>(seconds / (2 * once * plan[0])), 5, 2000);
  MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
  Samples a;
  Samples b;
  for (int i = 0; i < plan[1]; ++i) {
    a.seconds.push_back(sample(plan[0], ours));
    b.seconds.push_back(sample(plan[0], theirs));
  }
  if (world.rank() == 0) {
    const auto size = static_cast<double>(bytes);
    std::printf(
        "%10zu B  ours %10.2f %10.2f us %6.2f GB/s   MPI %10.2f %10.2f us %6.2f GB/s   "
        "ratio of minima %.2f\n",
        bytes, a.smallest() * 1e6, a.median() * 1e6, size / a.smallest() * 1e-9, b.smallest() * 1e6,
        b.median() * 1e6, size / b.smallest() * 1e-9, a.smallest() / b.smallest());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  WorldOptions options;
  double seconds = 1.0;
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--segment" && i + 1 < argc) {
      options.segment_bytes = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--seconds" && i + 1 < argc) {
      seconds = std::strtod(argv[++i], nullptr);
    } else {
      sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    }
  }
  if (sizes.empty()) {
    for (std::size_t bytes = 8; bytes <= std::size_t{64} << 20; bytes *= 4) {
      sizes.push_back(bytes);
    }
    sizes.push_back(std::size_t{16} << 20);
    sizes.push_back(std::size_t{64} << 20);
  }
  try {
    auto opened = open_mpi_world(options);
    if (const auto* unavailable = std::get_if<Unavailable>(&opened)) {
      std::fprintf(stderr, "no MPI: %s\n", unavailable->reason.c_str());
      return 1;
    }
    World& world = *std::get<std::unique_ptr<World>>(opened);
    for (const std::size_t bytes : sizes) {
      measure(world, bytes, seconds);
    }
    world.finish();
  } catch (const std::exception& error) {
    abort_world(1, error.what());
  }
  return 0;
}
