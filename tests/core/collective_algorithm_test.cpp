#include "sim/core/collective_algorithm.hpp"
#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

TEST_CASE("all-reduce chooses latency for small and bandwidth for large messages", "[core]") {
  CHECK(choose_all_reduce(8, 2) == AllReduceAlgorithm::kRecursiveDoubling);
  CHECK(choose_all_reduce(kPairDoublingBytes, 2) == AllReduceAlgorithm::kRecursiveDoubling);
  CHECK(choose_all_reduce(kPairDoublingBytes + 1, 2) == AllReduceAlgorithm::kRing);
  CHECK(choose_all_reduce(0, 4) == AllReduceAlgorithm::kDirect);
  CHECK(choose_all_reduce(kDirectBytes, kDirectRanks) == AllReduceAlgorithm::kDirect);
  CHECK(choose_all_reduce(kDirectBytes, kDirectRanks + 1) ==
        AllReduceAlgorithm::kRecursiveDoubling);
  CHECK(choose_all_reduce(kDirectBytes + 1, 4) == AllReduceAlgorithm::kRecursiveDoubling);
  CHECK(choose_all_reduce(kDoublingBytes, 4) == AllReduceAlgorithm::kRecursiveDoubling);
  CHECK(choose_all_reduce(kDoublingBytes + 1, 4) == AllReduceAlgorithm::kRing);
  CHECK(choose_all_reduce(std::int64_t{1} << 40, 16384) == AllReduceAlgorithm::kRing);
}

TEST_CASE("broadcast chains large messages through more than two ranks", "[core]") {
  CHECK(choose_broadcast(1 << 30, 2) == BroadcastAlgorithm::kBinomialTree);
  CHECK(choose_broadcast(kTreeBytes, 4) == BroadcastAlgorithm::kBinomialTree);
  CHECK(choose_broadcast(kTreeBytes + 1, 4) == BroadcastAlgorithm::kPipelinedChain);
}

TEST_CASE("the traffic of each algorithm follows its closed form", "[core]") {
  using Traffic = CollectiveTraffic;
  // 4 ranks, 1000 bytes: ring 2 x 3 steps, 2 x 3/4 of the bytes
  CHECK(all_reduce_traffic(AllReduceAlgorithm::kRing, 1000, 4) == Traffic{6, 1500.0});
  CHECK(all_reduce_traffic(AllReduceAlgorithm::kDirect, 1000, 4) == Traffic{1, 3000.0});
  CHECK(all_reduce_traffic(AllReduceAlgorithm::kRecursiveDoubling, 1000, 4) == Traffic{2, 2000.0});
  // 6 ranks: 4 of them double in 2 steps; 2 are folded in before and served after
  CHECK(all_reduce_traffic(AllReduceAlgorithm::kRecursiveDoubling, 1000, 6) == Traffic{4, 3000.0});
  CHECK(ring_half_traffic(1000, 5) == Traffic{4, 800.0});
  // 5 ranks: the root of a binomial tree sends three times
  CHECK(broadcast_traffic(BroadcastAlgorithm::kBinomialTree, 1000, 5, 100) == Traffic{3, 3000.0});
  // 10 segments pass 4 links: the last one arrives in step 10 + 3
  CHECK(broadcast_traffic(BroadcastAlgorithm::kPipelinedChain, 1000, 5, 100) ==
        Traffic{13, 1000.0});
  CHECK(all_to_all_traffic(1000, 5) == Traffic{1, 800.0});
  CHECK(barrier_traffic(5) == Traffic{3, 0.0});
}

TEST_CASE("one rank moves nothing", "[core]") {
  const CollectiveTraffic nothing;
  for (const auto algorithm : {AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kRecursiveDoubling,
                               AllReduceAlgorithm::kRing}) {
    CHECK(all_reduce_traffic(algorithm, 1000, 1) == nothing);
  }
  CHECK(ring_half_traffic(1000, 1) == nothing);
  CHECK(broadcast_traffic(BroadcastAlgorithm::kPipelinedChain, 1000, 1, 100) == nothing);
  CHECK(all_to_all_traffic(1000, 1) == nothing);
  CHECK(barrier_traffic(1) == nothing);
  CHECK_THROWS_AS(choose_all_reduce(8, 0), InternalError);
  CHECK_THROWS_AS(choose_all_reduce(-1, 2), InternalError);
}

TEST_CASE("a ring cuts its longest part into equal segments, four at a time", "[core]") {
  // 1 MiB segments of floats hold 262144. One element more makes two of half the size, rounded up
  // to cache lines of 16.
  CHECK(cut_ring(262144, 4, 1 << 20) == RingCut{262144, 1, 1});
  CHECK(cut_ring(262145, 4, 1 << 20) == RingCut{131088, 2, 1});
  CHECK(cut_ring(9 * 262144, 4, 1 << 20) == RingCut{262144, 4, 3});
  CHECK(cut_ring(0, 4, 1 << 20) == RingCut{});
}

TEST_CASE("an all-reduce's scratch is a slot for each segment that may be on its way", "[core]") {
  constexpr std::int64_t kSlot = (1 << 20) + 64;  // a segment and one cache line
  // 2 ranks, 16 MiB: parts of 8 MiB, 8 segments; 4 go around together and are received once
  CHECK(all_reduce_scratch_bytes(4 << 20, 4, 2) == 4 * kSlot);
  // 2 ranks, 4 MiB: parts of 2 segments
  CHECK(all_reduce_scratch_bytes(1 << 20, 4, 2) == 2 * kSlot);
  // 3 ranks receive 4 segments twice before the sums are complete; 8 ranks have no more slots
  CHECK(all_reduce_scratch_bytes(12 << 20, 4, 3) == 8 * kSlot);
  CHECK(all_reduce_scratch_bytes(32 << 20, 4, 8) == 8 * kSlot);
  // 8 ranks, 1 MiB: parts of 128 KiB, one segment, received 7 times
  CHECK(all_reduce_scratch_bytes(1 << 18, 4, 8) == 7 * ((1 << 17) + 64));
  CHECK(all_reduce_scratch_bytes(kPairDoublingBytes / 4, 4, 2) == 0);  // doubling
  CHECK(all_reduce_scratch_bytes(4 << 20, 4, 1) == 0);
}
