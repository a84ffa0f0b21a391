#include "tests/hw/comm_checks.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "sim/core/collective_algorithm.hpp"

namespace parplan::hw::test {

namespace {

// Small integers that differ per rank and element: sums are exact in float whatever the order.
template <class T>
T value(int rank, std::size_t i, int salt = 0) {
  return static_cast<T>(
      (static_cast<std::size_t>(rank) * 131 + i * 7 + static_cast<std::size_t>(salt) * 17) % 1009);
}

// Numbers whose sum depends on the order of adding.
float rough(int rank, std::size_t i) {
  const auto x =
      static_cast<float>((i * 2654435761U + static_cast<std::size_t>(rank) * 40503U) % 100003U);
  return x * (i % 3 == 0 ? 1e-5F : 1.37F) - static_cast<float>(rank) * 0.1F;
}

template <class T>
std::vector<T> filled(std::size_t count, int rank, int salt = 0) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = value<T>(rank, i, salt);
  }
  return data;
}

template <class T>
std::vector<T> summed(std::size_t count, int ranks, int salt = 0) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (int r = 0; r < ranks; ++r) {
      data[i] += value<T>(r, i, salt);
    }
  }
  return data;
}

// 0, 1, 2, around the number of ranks, through every algorithm, and odd ones of several segments.
std::vector<std::size_t> sizes(const Communicator& c) {
  const auto n = static_cast<std::size_t>(c.size());
  std::vector<std::size_t> result = {0, 1, 2, n - 1, n, n + 1, 5 * n + 3, 1023, 4099, 9973, 40009};
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::string at_size(const char* what, std::size_t count) {
  return std::string(what) + " of " + std::to_string(count) + " elements";
}

template <class T>
void all_reduce_of(World& world) {
  Communicator& c = world.all();
  for (const std::size_t count : sizes(c)) {
    std::vector<T> data = filled<T>(count, c.rank());
    Pending pending = c.all_reduce_sum(data);
    pending.wait();
    demand(world, data == summed<T>(count, c.size()), at_size("all_reduce", count));
    demand(world, pending.done() && pending.test(), "done after wait");
  }
}

void all_reduce_sums(World& world) {
  all_reduce_of<float>(world);
  all_reduce_of<double>(world);
}

template <class T>
void all_gather_of(World& world) {
  Communicator& c = world.all();
  for (const std::size_t count : sizes(c)) {
    std::vector<T> expected(count);
    for (int r = 0; r < c.size(); ++r) {
      const Part part = balanced_part(count, c.size(), r);
      for (std::size_t i = 0; i < part.count; ++i) {
        expected[part.offset + i] = value<T>(r, i);
      }
    }
    const Part own = balanced_part(count, c.size(), c.rank());
    const std::vector<T> mine = filled<T>(own.count, c.rank());
    std::vector<T> whole(count, static_cast<T>(-1));
    c.all_gather(mine, whole).wait();
    demand(world, whole == expected, at_size("all_gather", count));

    std::vector<T> in_place(count, static_cast<T>(-1));
    const std::span<T> place = std::span(in_place).subspan(own.offset, own.count);
    std::copy(mine.begin(), mine.end(), place.begin());
    c.all_gather(place, in_place).wait();
    demand(world, in_place == expected, at_size("all_gather in place", count));
  }
}

void all_gather_collects(World& world) {
  all_gather_of<float>(world);
  all_gather_of<double>(world);
  all_gather_of<std::int32_t>(world);
}

template <class T>
void reduce_scatter_of(World& world) {
  Communicator& c = world.all();
  for (const std::size_t count : sizes(c)) {
    const std::vector<T> sum = summed<T>(count, c.size());
    const Part own = balanced_part(count, c.size(), c.rank());
    const std::vector<T> expected(
        sum.begin() + static_cast<std::ptrdiff_t>(own.offset),
        sum.begin() + static_cast<std::ptrdiff_t>(own.offset + own.count));
    std::vector<T> whole = filled<T>(count, c.rank());
    std::vector<T> part(own.count);
    c.reduce_scatter_sum(whole, part).wait();
    demand(world, part == expected, at_size("reduce_scatter", count));
    demand(world, whole == filled<T>(count, c.rank()), "reduce_scatter leaves its input");

    const std::span<T> place = std::span(whole).subspan(own.offset, own.count);
    c.reduce_scatter_sum(whole, place).wait();
    demand(world, std::equal(place.begin(), place.end(), expected.begin()),
           at_size("reduce_scatter in place", count));
  }
}

void reduce_scatter_sums(World& world) {
  reduce_scatter_of<float>(world);
  reduce_scatter_of<double>(world);
}

template <class T>
void broadcast_of(World& world) {
  Communicator& c = world.all();
  for (int root = 0; root < c.size(); ++root) {
    for (const std::size_t count : sizes(c)) {
      std::vector<T> data = filled<T>(count, c.rank());
      c.broadcast(data, root).wait();
      demand(world, data == filled<T>(count, root), at_size("broadcast", count));
    }
  }
}

void broadcast_copies_from_any_root(World& world) {
  broadcast_of<float>(world);
  broadcast_of<double>(world);
  broadcast_of<std::int32_t>(world);
}

void all_to_all_transposes(World& world) {
  Communicator& c = world.all();
  const auto n = static_cast<std::size_t>(c.size());
  for (const std::size_t block :
       {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{30011}}) {
    const std::vector<float> input = filled<float>(block * n, c.rank());
    std::vector<float> output(block * n, -1.0F);
    c.all_to_all(input, output).wait();
    for (std::size_t from = 0; from < n; ++from) {
      const std::size_t offset = static_cast<std::size_t>(c.rank()) * block;
      for (std::size_t i = 0; i < block; ++i) {
        demand(world, output[from * block + i] == value<float>(static_cast<int>(from), offset + i),
               at_size("all_to_all block", block));
      }
    }
  }
}

void transfers_match_by_tag_and_order(World& world) {
  Communicator& c = world.all();
  if (c.size() == 1) {
    return;
  }
  const int next = (c.rank() + 1) % c.size();
  const int previous = (c.rank() + c.size() - 1) % c.size();
  // Eager and large, two of each tag; receives posted in another order of tags than the sends.
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{512}, std::size_t{513}, std::size_t{70001}}) {
    std::array<std::vector<float>, 4> out;
    std::array<std::vector<float>, 4> in;
    std::vector<Pending> pending;
    for (int i = 0; i < 4; ++i) {
      out[static_cast<std::size_t>(i)] = filled<float>(count, c.rank(), i);
      in[static_cast<std::size_t>(i)].assign(count, -1.0F);
    }
    pending.push_back(c.receive(in[2], previous, 9));
    pending.push_back(c.receive(in[0], previous, 4));
    for (int i = 0; i < 4; ++i) {
      pending.push_back(c.send(out[static_cast<std::size_t>(i)], next, i < 2 ? 4 : 9));
    }
    pending.push_back(c.receive(in[3], previous, 9));
    pending.push_back(c.receive(in[1], previous, 4));
    for (std::size_t i = pending.size(); i-- > 0;) {
      pending[i].wait();
    }
    for (int i = 0; i < 4; ++i) {
      demand(world, in[static_cast<std::size_t>(i)] == filled<float>(count, previous, i),
             at_size("receive", count));
    }
  }
}

void small_send_does_not_wait_for_its_receive(World& world) {
  Communicator& c = world.all();
  if (c.size() == 1) {
    return;
  }
  const int next = (c.rank() + 1) % c.size();
  const int previous = (c.rank() + c.size() - 1) % c.size();
  const std::vector<double> out(Communicator::kEagerBytes / sizeof(double), c.rank());
  std::vector<double> in(out.size());
  c.send(out, next, 0).wait();  // everybody sends first: only eager sends get past this
  c.receive(in, previous, 0).wait();
  demand(world, in.front() == previous && in.back() == previous, "eager message");
}

// Bit patterns as they are, so that equal means identical.
void sums_are_bit_identical_and_repeat(World& world) {
  Communicator& c = world.all();
  for (const std::size_t count : {std::size_t{7}, std::size_t{3001}, std::size_t{50021}}) {
    std::vector<float> first;
    for (int repeat = 0; repeat < 4; ++repeat) {
      std::vector<float> data(count);
      for (std::size_t i = 0; i < count; ++i) {
        data[i] = rough(c.rank(), i);
      }
      if (repeat % c.size() == c.rank()) {  // another rank comes late each time
        const auto until = Clock::now() + std::chrono::milliseconds(2);
        while (Clock::now() < until) {
        }
      }
      c.all_reduce_sum(data).wait();
      if (repeat == 0) {
        first = data;
      }
      demand(world, std::memcmp(first.data(), data.data(), count * sizeof(float)) == 0,
             at_size("repeated all_reduce", count));
    }
    std::vector<float> root = first;
    c.broadcast(root, 0).wait();
    demand(world, std::memcmp(first.data(), root.data(), count * sizeof(float)) == 0,
           at_size("all_reduce on all ranks", count));
  }
}

// Pending operations of several kinds and sizes, on two overlapping groups, waited for in an order
// of each rank's own.
void outstanding_operations_do_not_mix(World& world) {
  Communicator& c = world.all();
  std::vector<int> reversed;
  for (int r = c.size(); r-- > 0;) {
    reversed.push_back(r);
  }
  const std::unique_ptr<Communicator> other = world.create_group(reversed, "reversed");
  constexpr std::size_t kOperations = 12;
  std::vector<std::vector<float>> data;
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const std::size_t count = i % 3 == 0 ? 3 + i : 1000 * i + 1;
    data.push_back(filled<float>(count, c.rank(), static_cast<int>(i)));
  }
  for (std::size_t i = 0; i < kOperations; ++i) {
    Communicator& group = i % 2 == 0 ? c : *other;
    pending.push_back(i % 4 == 1 ? group.broadcast(data[i], 0) : group.all_reduce_sum(data[i]));
  }
  for (std::size_t i = 0; i < kOperations; ++i) {
    pending[(i * 5 + static_cast<std::size_t>(c.rank())) % kOperations].wait();
  }
  for (std::size_t i = 0; i < kOperations; ++i) {
    const int salt = static_cast<int>(i);
    const std::vector<float> expected = i % 4 == 1
                                            ? filled<float>(data[i].size(), c.size() - 1, salt)
                                            : summed<float>(data[i].size(), c.size(), salt);
    demand(world, data[i] == expected, "outstanding operation " + std::to_string(i));
  }
  demand(world, world.progress().outstanding() == 0, "nothing outstanding at the end");
}

// More rings than move at once, on two groups with the same ranks, the last ones waited for first.
void rings_wait_for_their_turn(World& world) {
  Communicator& c = world.all();
  std::vector<int> everyone(static_cast<std::size_t>(c.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const std::unique_ptr<Communicator> other = world.create_group(everyone, "same ranks");
  constexpr std::size_t kRings = 3 * kRingsAtOnce;
  constexpr std::size_t kCount = 100'003;
  std::vector<std::vector<float>> data;
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < kRings; ++i) {
    data.push_back(filled<float>(kCount, c.rank(), static_cast<int>(i)));
  }
  for (std::size_t i = 0; i < kRings; ++i) {
    pending.push_back((i % 3 == 0 ? *other : c).all_reduce_sum(data[i]));
  }
  for (std::size_t i = kRings; i-- > 0;) {
    pending[(i + static_cast<std::size_t>(c.rank())) % kRings].wait();
  }
  for (std::size_t i = 0; i < kRings; ++i) {
    demand(world, data[i] == summed<float>(kCount, c.size(), static_cast<int>(i)),
           "ring " + std::to_string(i));
  }
}

void polling_alone_completes_operations(World& world) {
  Communicator& c = world.all();
  std::vector<double> data = filled<double>(60001, c.rank());
  std::vector<float> small = filled<float>(5, c.rank());
  Pending large = c.all_reduce_sum(data);
  Pending tiny = c.all_reduce_sum(small);
  const auto limit = Clock::now() + std::chrono::seconds(30);
  while (!(large.done() && tiny.done()) && Clock::now() < limit) {
    world.progress().poll();
  }
  demand(world, large.done() && tiny.done(), "done by polling");
  demand(world, data == summed<double>(data.size(), c.size()), "polled all_reduce");
  demand(world, small == summed<float>(small.size(), c.size()), "polled small all_reduce");
  demand(world, large.times().in_wait.count() == 0, "no time in wait without waiting");
}

void groups_have_their_own_ranks(World& world) {
  const int n = world.size();
  std::vector<int> even;
  std::vector<int> backwards;
  for (int r = 0; r < n; r += 2) {
    even.push_back(r);
  }
  for (int r = n; r-- > 0;) {
    backwards.push_back(r);
  }
  const std::unique_ptr<Communicator> evens = world.create_group(even, "even");
  const std::unique_ptr<Communicator> back = world.create_group(backwards, "back");
  const std::unique_ptr<Communicator> last = world.create_group(std::array{n - 1}, "last");
  demand(world, (evens != nullptr) == (world.rank() % 2 == 0), "members only");
  demand(world, (last != nullptr) == (world.rank() == n - 1), "a group of one");
  demand(world, back->rank() == n - 1 - world.rank() && back->size() == n, "rank by position");
  demand(world, back->name() == "back" && back->world_ranks()[0] == n - 1, "world ranks");
  std::vector<std::int32_t> from = {world.rank(), 42};
  back->broadcast(from, 0).wait();
  demand(world, from[0] == n - 1, "root is the group's");
  if (evens != nullptr) {
    std::vector<float> data = {static_cast<float>(world.rank())};
    evens->all_reduce_sum(data).wait();
    float expected = 0.0F;
    for (const int r : even) {
      expected += static_cast<float>(r);
    }
    demand(world, data[0] == expected, "sum over the group only");
  }
}

void strings_travel_through_the_world(World& world) {
  const std::string mine(static_cast<std::size_t>(world.rank()) * 1301, 'a');
  const std::vector<std::string> all = world.gather(mine + std::to_string(world.rank()));
  if (world.rank() == 0) {
    demand(world, static_cast<int>(all.size()) == world.size(), "one string per rank");
    for (std::size_t r = 0; r < all.size(); ++r) {
      demand(world, all[r] == std::string(r * 1301, 'a') + std::to_string(r), "gathered string");
    }
  } else {
    demand(world, all.empty(), "only rank 0 gets strings");
  }
  const std::string text("zero \0 inside and 5", 19);
  demand(world, world.broadcast(world.rank() == 0 ? text : "ignored") == text, "broadcast string");
  demand(world, world.broadcast("").empty(), "empty string");
  demand(world, static_cast<int>(world.host_names().size()) == world.size(), "host names");
  demand(world, !world.host_name().empty(), "own host name");
}

// All ranks of these tests share one steady clock.
void clocks_agree_on_one_host(World& world) {
  const ClockOffset clock = world.align_clock();
  demand(world, clock.uncertainty.count() >= 0.0 && clock.uncertainty.count() < 10e-3,
         "uncertainty " + std::to_string(clock.uncertainty.count()) + " s");
  demand(world, std::abs(clock.offset.count()) <= clock.uncertainty.count(),
         "offset " + std::to_string(clock.offset.count()) + " s");
}

// The last rank posts only after all others have told it that they have.
void times_and_bytes_are_told(World& world) {
  Communicator& c = world.all();
  constexpr std::size_t kCount = 840 * 48;  // divides by 1 to 8 ranks
  const int last = c.size() - 1;
  std::vector<float> data = filled<float>(kCount, c.rank());
  float token = 0.0F;
  Pending pending;
  std::vector<double> late_s(1);
  if (c.rank() == last) {
    for (int r = 0; r < last; ++r) {
      c.receive(std::span(&token, 1), r, 0).wait();
    }
    late_s[0] = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
    pending = c.all_reduce_sum(data);
  } else {
    pending = c.all_reduce_sum(data);
    c.send(std::span(&token, 1), last, 0).wait();
  }
  pending.wait();
  c.broadcast(late_s, last).wait();
  const CommTimes& times = pending.times();
  demand(world, times.peer_arrived.has_value() && times.completed.has_value(), "times are known");
  demand(world, times.posted <= *times.peer_arrived && *times.peer_arrived <= *times.completed,
         "posted, arrived, completed");
  const double bytes = all_reduce_traffic(choose_all_reduce(kCount * sizeof(float), c.size()),
                                          kCount * sizeof(float), c.size())
                           .sent_bytes;
  demand(world, static_cast<double>(times.sent_bytes) == bytes, "bytes sent");
  demand(world, static_cast<double>(times.received_bytes) == bytes, "bytes received");
  demand(world, times.cpu.count() > 0, "work is counted");
  const auto seconds = [](Clock::time_point t) {
    return std::chrono::duration<double>(t.time_since_epoch()).count();
  };
  if (c.rank() != last) {
    demand(world, seconds(times.posted) < late_s[0] && seconds(*times.peer_arrived) >= late_s[0],
           "waiting for the late rank is told apart");
  }
}

}  // namespace

void demand(World& world, bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error("rank " + std::to_string(world.rank()) + " of " +
                             std::to_string(world.size()) + ": wrong: " + what);
  }
}

const std::vector<CommCheck>& comm_checks() {
  static const std::vector<CommCheck> kChecks = {
      {"all_reduce sums", all_reduce_sums},
      {"all_gather collects the parts", all_gather_collects},
      {"reduce_scatter sums parts", reduce_scatter_sums},
      {"broadcast copies from any root", broadcast_copies_from_any_root},
      {"all_to_all transposes blocks", all_to_all_transposes},
      {"transfers match by tag and order", transfers_match_by_tag_and_order},
      {"a small send does not wait for its receive", small_send_does_not_wait_for_its_receive},
      {"sums are bit-identical and repeat", sums_are_bit_identical_and_repeat},
      {"outstanding operations do not mix", outstanding_operations_do_not_mix},
      {"rings wait for their turn", rings_wait_for_their_turn},
      {"polling alone completes operations", polling_alone_completes_operations},
      {"groups have their own ranks", groups_have_their_own_ranks},
      {"strings travel through the world", strings_travel_through_the_world},
      {"clocks agree on one host", clocks_agree_on_one_host},
      {"times and bytes are told", times_and_bytes_are_told},
  };
  return kChecks;
}

}  // namespace parplan::hw::test
