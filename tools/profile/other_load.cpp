#include "tools/profile/other_load.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace parplan::tools {
namespace {

std::set<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::set<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.insert(core);
  }
  return cores;
}

double all_s() {
  std::ifstream file("/proc/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return busy_seconds(text, static_cast<double>(sysconf(_SC_CLK_TCK)), usable_cores());
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double own_s() {
  double sum = 0.0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    sum += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  return sum;
}

}  // namespace

double busy_seconds(const std::string& stat_text, double ticks_per_s, const std::set<int>& cores) {
  // cpuN user nice system idle iowait irq softirq steal; guest time is in user already.
  constexpr int kIdle = 3;
  constexpr int kWaitsForDisk = 4;
  constexpr int kFields = 8;
  double ticks = 0.0;
  std::istringstream lines(stat_text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    int core = -1;
    if (!name.starts_with("cpu") || std::sscanf(name.c_str(), "cpu%d", &core) != 1) continue;
    if (!cores.contains(core)) continue;
    double value = 0.0;
    for (int i = 0; i < kFields && fields >> value; ++i) {
      if (i != kIdle && i != kWaitsForDisk) ticks += value;
    }
  }
  return ticks / ticks_per_s;
}

OtherLoad::OtherLoad() : begin_(Clock::now()), all_s_(all_s()), own_s_(own_s()) {}

double OtherLoad::cores() const {
  const double wall_s = std::chrono::duration<double>(Clock::now() - begin_).count();
  const double others_s = (all_s() - all_s_) - (own_s() - own_s_);
  return wall_s > 0.0 ? std::max(0.0, others_s / wall_s) : 0.0;
}

}  // namespace parplan::tools
