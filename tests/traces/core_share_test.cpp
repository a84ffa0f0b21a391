#include "traces/core_share.hpp"

#include "tests/catch2_compat.hpp"
#include "tests/traces/small_run.hpp"
#include "traces/calibrate.hpp"

using namespace parplan;

namespace {

constexpr Picoseconds kMillisecond{1'000'000'000};

TraceEvent reduction(std::int64_t bucket, std::int64_t from_ms, std::int64_t to_ms,
                     std::int64_t waiting_ms = 0) {
  TraceEvent e;
  e.key = Key(Phase::kReduceGradients, 0, 0, Key::kNone, static_cast<std::uint32_t>(bucket),
              Key::kWholeInstruction);
  e.stream = Stream::kDataParallel;
  e.start = kMillisecond * from_ms;
  e.end = kMillisecond * to_ms;
  e.waiting = kMillisecond * waiting_ms;
  e.bytes = Bytes{1'000'000};
  return e;
}

/// A link of 1e8 B/s on which a rank's core works 3 ns for each byte it sends and receives: a
/// reduction of 1 MB over two ranks sends that much, takes 10 ms and 3 ms of the core.
Cluster slow_link() {
  Cluster c = test::round_machine();
  c.intra_node.latency = Seconds{};
  c.intra_node.bandwidth = BytesPerSecond{1e8};
  c.intra_node.send_cpu_s_per_byte = 1e-9;
  c.intra_node.receive_cpu_s_per_byte = 2e-9;
  return c;
}

}  // namespace

TEST_CASE("transfers under way together take their core time from the whole period", "[traces]") {
  traces::TraceFile file{{}, test::tiny_plan("dp=2")};
  // Two buckets, posted at once: the second moves when the first is done. A third one later waits
  // 5 ms for its peer.
  file.trace.events = {reduction(0, 10, 20), reduction(1, 10, 30), reduction(2, 40, 55, 5)};
  const sim::CostModel costs(slow_link());
  const traces::CoreShare core(file, lower(file.plan), costs);
  const auto taken = [&core](std::int64_t from_ms, std::int64_t to_ms) {
    return core.taken(0, kMillisecond * from_ms, kMillisecond * to_ms);
  };
  CHECK(taken(0, 10) == 0.0);
  CHECK(taken(10, 30) == Approx(6.0 / 20));
  CHECK(taken(25, 35) == Approx(0.5 * 6.0 / 20));
  CHECK(taken(40, 45) == 0.0);
  CHECK(taken(45, 55) == Approx(3.0 / 10));
  CHECK(taken(0, 100) == Approx((6.0 + 3.0) / 100));
  CHECK(taken(7, 7) == 0.0);
  CHECK(core.taken(1, kMillisecond * 10, kMillisecond * 20) == 0.0);  // has no transfers
}
