#include "hw/profile/comm_bench.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "hw/communicator.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

constexpr std::size_t kRotation = 4;  // buffer sets, so that repetitions do not find their data hot

constexpr int kPause = 10;  // rounds of CoreWork before a collective, about 200 us

constexpr int kMostBesideWork = 25;  // repetitions beside computation; the median settles early

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// One repetition on one rank.
struct Timing {
  double wall_s = 0.0;
  double cpu_s = 0.0;
};

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Computation that needs nothing but the core: about 20 us of multiply-adds on 4 KiB.
class CoreWork {
 public:
  void once() {
    for (int round = 0; round < kRounds; ++round) {
      for (float& x : values_) x = x * 0.999F + 0.001F;
      asm volatile("" : : "r"(values_.data()) : "memory");  // every round counts
    }
  }

  /// Median of what `once` takes here and now.
  double undisturbed_s() {
    std::vector<double> times;
    for (int i = 0; i < 31; ++i) {
      const auto begin = Clock::now();
      once();
      times.push_back(seconds(Clock::now() - begin));
    }
    return quantile(std::move(times), 0.5);
  }

 private:
  static constexpr int kRounds = 200;
  std::array<float, 1024> values_{};
};

/// Buffers and calls of one collective at one size on one rank.
class Bench {
 public:
  Bench(Communicator& group, CollectiveKind kind, std::int64_t bytes)
      : group_(group), kind_(kind), pause_(kind == CollectiveKind::kSendReceive ? 0 : kPause) {
    const auto ranks = static_cast<std::size_t>(group.size());
    count_ = std::max<std::size_t>(1, static_cast<std::size_t>(bytes) / sizeof(float));
    count_ = (count_ + ranks - 1) / ranks * ranks;
    for (auto& set : sets_) {
      set.whole.assign(count_, 1.0F);
      set.part.assign(count_, 1.0F);
    }
  }

  Bytes bytes() const { return Bytes{static_cast<std::int64_t>(count_ * sizeof(float))}; }

  /// Collectives after a pause, as there is one between those of a step: what refills while nothing
  /// moves (token buckets of virtual and of shaped links, windows) is full then. Microbatches
  /// follow each other from stage to stage, so transfers between two do without.
  Timing once() {
    for (int i = 0; i < pause_; ++i) work_.once();
    Pending barrier = group_.barrier();
    barrier.wait();
    Pending pending = start();
    pending.wait();
    const CommTimes& t = pending.times();
    // The barrier before has brought all ranks together; `peer_arrived` would start the clock late,
    // since the first sign of a peer often comes with the data.
    return {seconds(t.completed.value_or(Clock::now()) - t.posted), seconds(t.cpu)};
  }

  double pause_s() const { return pause_ * work_s_; }

  /// Core time that one repetition takes from a rank that computes until it is complete.
  double taken_from_work() {
    group_.barrier().wait();
    const auto begin = Clock::now();
    Pending pending = start();
    int done = 0;
    while (!pending.test()) {
      work_.once();
      ++done;
    }
    return std::max(0.0, seconds(Clock::now() - begin) - done * work_s_);
  }

  /// All ranks hold ones: a sum gives the number of ranks, everything else ones.
  void check() {
    fill();
    Pending pending = start();
    pending.wait();
    const Set& set = sets_[(next_ + kRotation - 1) % kRotation];
    const bool sums =
        kind_ == CollectiveKind::kAllReduce || kind_ == CollectiveKind::kReduceScatter;
    const float expected = sums ? static_cast<float>(group_.size()) : 1.0F;
    const float found =
        kind_ == CollectiveKind::kReduceScatter || kind_ == CollectiveKind::kAllToAll
            ? set.part.front()
            : set.whole.front();
    if (found != expected) {
      throw HwError("the " + std::string(name_of(kind_)) + " of " + std::to_string(bytes().value) +
                    " bytes gave " + std::to_string(found) + " instead of " +
                    std::to_string(expected));
    }
  }

 private:
  struct Set {
    std::vector<float> whole;
    std::vector<float> part;
  };

  void fill() {
    for (auto& set : sets_) {
      std::fill(set.whole.begin(), set.whole.end(), 1.0F);
      std::fill(set.part.begin(), set.part.end(), 1.0F);
    }
  }

  Pending start() {
    Set& set = sets_[next_++ % kRotation];
    const std::span<float> whole(set.whole);
    const Part own = balanced_part(count_, group_.size(), group_.rank());
    const std::span<float> part = std::span<float>(set.part).first(own.count);
    switch (kind_) {
      case CollectiveKind::kAllReduce:
        return group_.all_reduce_sum(whole);
      case CollectiveKind::kAllGather:
        return group_.all_gather(part, whole);
      case CollectiveKind::kReduceScatter:
        return group_.reduce_scatter_sum(whole, part);
      case CollectiveKind::kAllToAll:
        return group_.all_to_all(whole, std::span<float>(set.part));
      case CollectiveKind::kBroadcast:
        return group_.broadcast(whole, 0);
      case CollectiveKind::kSendReceive:
        return group_.rank() == 0 ? group_.send(whole, 1, 0) : group_.receive(whole, 0, 0);
    }
    return {};
  }

  Communicator& group_;
  CollectiveKind kind_;
  int pause_;  // rounds of work before a repetition
  CoreWork work_;
  double work_s_ = work_.undisturbed_s();
  std::size_t count_ = 0;
  std::array<Set, kRotation> sets_;
  std::size_t next_ = 0;
};

/// Everybody learns the largest of the ranks' values.
std::vector<double> slowest(Communicator& group, const std::vector<double>& own) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<double> all(own.size() * ranks);
  Pending gather = group.all_gather(std::span<const double>(own), std::span<double>(all));
  gather.wait();
  std::vector<double> result = own;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      result[i] = std::max(result[i], all[r * own.size() + i]);
    }
  }
  return result;
}

int agreed_repetitions(Communicator& group, Bench& bench, const CommBenchOptions& options) {
  const double once = std::max(bench.once().wall_s, bench.once().wall_s) + bench.pause_s();
  std::vector<std::int32_t> count{static_cast<std::int32_t>(
      std::clamp(options.time_per_point.value / std::max(once, 1e-7), 1.0, 2000.0))};
  count[0] = std::max(count[0], options.least_repetitions);
  Pending agree = group.broadcast(count, 0);
  agree.wait();
  return count[0];
}

TransferSample measure(Communicator& group, CollectiveKind kind, std::int64_t size,
                       const CommBenchOptions& options) {
  Bench bench(group, kind, size);
  bench.check();
  const int repetitions = agreed_repetitions(group, bench, options);
  std::vector<double> walls;
  std::vector<double> cpus;
  for (int i = 0; i < repetitions; ++i) {
    const Timing t = bench.once();
    walls.push_back(t.wall_s);
    cpus.push_back(t.cpu_s);
  }
  walls = slowest(group, walls);
  const bool beside_computation =
      kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kSendReceive;
  if (options.own_cores && beside_computation) {
    cpus.clear();
    for (int i = 0; i < std::min(repetitions, kMostBesideWork); ++i) {
      cpus.push_back(bench.taken_from_work());
    }
  }
  TransferSample sample;
  sample.kind = kind;
  sample.ranks = group.size();
  sample.bytes = bench.bytes();
  sample.median = Seconds{quantile(walls, 0.5)};
  sample.relative_spread =
      (quantile(walls, 0.9) - quantile(walls, 0.1)) / std::max(sample.median.value, 1e-12);
  // Send/receive: rank 1's median is the receiver's core time, rank 0's the sender's.
  std::vector<double> own_cpu{quantile(cpus, 0.5)};
  std::vector<double> all_cpu(static_cast<std::size_t>(group.size()));
  Pending gather = group.all_gather(std::span<const double>(own_cpu), std::span<double>(all_cpu));
  gather.wait();
  if (kind == CollectiveKind::kSendReceive) {
    sample.cpu = Seconds{std::min(all_cpu[1], sample.median.value)};
    sample.peer_cpu = Seconds{std::min(all_cpu[0], sample.median.value)};
  } else {
    const double mean =
        std::accumulate(all_cpu.begin(), all_cpu.end(), 0.0) / static_cast<double>(all_cpu.size());
    sample.cpu = Seconds{std::min(mean, sample.median.value)};
  }
  return sample;
}

std::vector<int> group_sizes(int ranks) {
  std::vector<int> sizes;
  for (int n = 2; n < ranks; n *= 2) sizes.push_back(n);
  if (ranks > 1) sizes.push_back(ranks);
  return sizes;
}

}  // namespace

std::vector<std::int64_t> default_comm_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 8; size <= (std::int64_t{16} << 20); size *= 2) sizes.push_back(size);
  return sizes;
}

std::vector<TransferSample> measure_communication(World& world, const CommBenchOptions& options) {
  std::vector<TransferSample> samples;
  for (const int n : group_sizes(world.size())) {
    if (n < options.least_ranks) continue;
    std::vector<int> members(static_cast<std::size_t>(n));
    std::iota(members.begin(), members.end(), 0);
    const auto group = world.create_group(members, "profile " + std::to_string(n));
    if (group == nullptr) continue;  // ranks outside the group wait at the world's barrier
    for (const CollectiveKind kind :
         {CollectiveKind::kSendReceive, CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
          CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll, CollectiveKind::kBroadcast}) {
      if (kind == CollectiveKind::kSendReceive && n != 2) continue;
      for (const std::int64_t size : options.bytes) {
        samples.push_back(measure(*group, kind, size, options));
      }
    }
  }
  world.barrier();
  return world.rank() == 0 ? samples : std::vector<TransferSample>{};
}

bool directions_share_link(World& world, std::int64_t bytes) {
  if (world.size() < 2) return false;
  const auto pair = world.create_group(std::vector<int>{0, 1}, "profile directions");
  bool shared = false;
  if (pair != nullptr) {
    std::vector<float> out(static_cast<std::size_t>(bytes) / sizeof(float), 1.0F);
    std::vector<float> in(out.size(), 0.0F);
    const int peer = 1 - pair->rank();
    // Starts sends and receives as told, and takes the time until all are done.
    const auto time = [&](bool sends, bool receives) {
      pair->barrier().wait();
      const auto begin = Clock::now();
      Pending receive = receives ? pair->receive(std::span<float>(in), peer, 0) : Pending{};
      Pending send = sends ? pair->send(std::span<float>(out), peer, 0) : Pending{};
      if (receives) receive.wait();
      if (sends) send.wait();
      return seconds(Clock::now() - begin);
    };
    std::vector<double> one_way;
    std::vector<double> both_ways;
    for (int i = 0; i < 9; ++i) {
      one_way.push_back(time(pair->rank() == 0, pair->rank() == 1));
      both_ways.push_back(time(true, true));
    }
    shared =
        quantile(slowest(*pair, both_ways), 0.5) > 1.75 * quantile(slowest(*pair, one_way), 0.5);
  }
  world.barrier();
  return shared;
}

}  // namespace parplan::hw
