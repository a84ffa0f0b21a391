#include "sim/core/collective_algorithm.hpp"

#include <algorithm>
#include <bit>

#include "sim/core/error.hpp"

namespace parplan {

namespace {

constexpr std::int64_t kCacheLine = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
int floor_log2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
int ceil_log2(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

void check(std::int64_t bytes, int ranks) {
  ensure(ranks >= 1, "a collective has at least one rank");
  ensure(bytes >= 0, "a collective moves no negative bytes");
}

}  // namespace

std::string_view name_of(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::kDirect:
      return "direct";
    case AllReduceAlgorithm::kRecursiveDoubling:
      return "recursive-doubling";
    case AllReduceAlgorithm::kRing:
      return "ring";
  }
  throw InternalError("internal error: unknown all-reduce algorithm");
}

std::string_view name_of(BroadcastAlgorithm algorithm) {
  switch (algorithm) {
    case BroadcastAlgorithm::kBinomialTree:
      return "binomial-tree";
    case BroadcastAlgorithm::kPipelinedChain:
      return "pipelined-chain";
  }
  throw InternalError("internal error: unknown broadcast algorithm");
}

AllReduceAlgorithm choose_all_reduce(std::int64_t bytes, int ranks) {
  check(bytes, ranks);
  if (ranks > 2 && ranks <= kDirectRanks && bytes <= kDirectBytes) {
    return AllReduceAlgorithm::kDirect;
  }
  return bytes <= (ranks <= 2 ? kPairDoublingBytes : kDoublingBytes)
             ? AllReduceAlgorithm::kRecursiveDoubling
             : AllReduceAlgorithm::kRing;
}

BroadcastAlgorithm choose_broadcast(std::int64_t bytes, int ranks) {
  check(bytes, ranks);
  return ranks <= 2 || bytes <= kTreeBytes ? BroadcastAlgorithm::kBinomialTree
                                           : BroadcastAlgorithm::kPipelinedChain;
}

CollectiveTraffic all_reduce_traffic(AllReduceAlgorithm algorithm, std::int64_t bytes, int ranks) {
  check(bytes, ranks);
  if (ranks == 1) {
    return {};
  }
  const auto size = static_cast<double>(bytes);
  switch (algorithm) {
    case AllReduceAlgorithm::kDirect:
      return {1, size * (ranks - 1)};
    case AllReduceAlgorithm::kRecursiveDoubling: {
      const int rounds = floor_log2(ranks);
      const bool folded = !std::has_single_bit(static_cast<unsigned>(ranks));
      return {rounds + (folded ? 2 : 0), size * (rounds + (folded ? 1 : 0))};
    }
    case AllReduceAlgorithm::kRing:
      return {2 * (ranks - 1), 2.0 * size * (ranks - 1) / ranks};
  }
  throw InternalError("internal error: unknown all-reduce algorithm");
}

CollectiveTraffic ring_half_traffic(std::int64_t bytes, int ranks) {
  check(bytes, ranks);
  return {ranks - 1, static_cast<double>(bytes) * (ranks - 1) / ranks};
}

RingCut cut_ring(std::int64_t longest_part, std::int64_t element_bytes,
                 std::int64_t segment_bytes) {
  if (longest_part == 0) {
    return {};
  }
  const std::int64_t limit = std::max<std::int64_t>(segment_bytes / element_bytes, 1);
  const std::int64_t equal = ceil_div(longest_part, ceil_div(longest_part, limit));
  const std::int64_t grain = kCacheLine / element_bytes;
  RingCut cut;
  cut.segment = std::min(ceil_div(equal, grain) * grain, std::max(limit, grain));
  const std::int64_t segments = ceil_div(longest_part, cut.segment);
  cut.lanes = std::min(segments, kRingLanes);
  cut.passes = ceil_div(segments, cut.lanes);
  return cut;
}

std::int64_t ring_slot_bytes(const RingCut& cut, std::int64_t element_bytes) {
  return (ceil_div(cut.segment * element_bytes, kCacheLine) + 1) * kCacheLine;
}

std::int64_t ring_all_reduce_slots(const RingCut& cut, int ranks) {
  return std::min(2 * kRingLanes, cut.lanes * (ranks - 1));
}

std::int64_t all_reduce_scratch_bytes(std::int64_t count, std::int64_t element_bytes, int ranks) {
  check(count * element_bytes, ranks);
  if (ranks == 1 || choose_all_reduce(count * element_bytes, ranks) != AllReduceAlgorithm::kRing) {
    return 0;
  }
  const RingCut cut = cut_ring(ceil_div(count, ranks), element_bytes, kSegmentBytes);
  return ring_all_reduce_slots(cut, ranks) * ring_slot_bytes(cut, element_bytes);
}

CollectiveTraffic broadcast_traffic(BroadcastAlgorithm algorithm, std::int64_t bytes, int ranks,
                                    std::int64_t segment_bytes) {
  check(bytes, ranks);
  ensure(segment_bytes > 0, "a segment has bytes");
  if (ranks == 1) {
    return {};
  }
  const auto size = static_cast<double>(bytes);
  switch (algorithm) {
    case BroadcastAlgorithm::kBinomialTree:
      return {ceil_log2(ranks), size * ceil_log2(ranks)};
    case BroadcastAlgorithm::kPipelinedChain: {
      const std::int64_t segments = (bytes + segment_bytes - 1) / segment_bytes;
      return {ranks - 2 + static_cast<int>(segments), size};
    }
  }
  throw InternalError("internal error: unknown broadcast algorithm");
}

CollectiveTraffic all_to_all_traffic(std::int64_t bytes, int ranks) {
  check(bytes, ranks);
  return {ranks > 1 ? 1 : 0, static_cast<double>(bytes) * (ranks - 1) / ranks};
}

CollectiveTraffic barrier_traffic(int ranks) {
  check(0, ranks);
  return {ceil_log2(ranks), 0.0};
}

}  // namespace parplan
