#pragma once

#include <cstdint>
#include <string_view>

namespace parplan {

/// Which algorithm a collective runs, and what it moves. One definition for both worlds: the
/// executor runs what these functions choose and the simulator prices the same choice. Pure
/// functions; `ranks`
/// >= 1, `bytes` >= 0 is the whole buffer of one rank (for all-gather the gathered, for
/// reduce-scatter the unreduced one).

enum class AllReduceAlgorithm : std::uint8_t {
  /// Every rank sends its whole buffer to every other and adds all in rank order. One step.
  kDirect,
  /// log2 steps of pairwise exchange of the whole buffer. Where `ranks` is no power of two, the
  /// ranks
  /// beyond it first give their data to a partner and get the result back at the end (two more
  /// steps).
  kRecursiveDoubling,
  /// Reduce-scatter then all-gather around a ring, in segments. 2(n-1) steps of bytes/n: the fewest
  /// bytes any algorithm can send.
  kRing,
};

enum class BroadcastAlgorithm : std::uint8_t {
  kBinomialTree,    ///< ceil(log2 n) steps of the whole buffer
  kPipelinedChain,  ///< from rank to rank in segments: bytes pass each link once
};

[[nodiscard]] std::string_view name_of(AllReduceAlgorithm algorithm);
[[nodiscard]] std::string_view name_of(BroadcastAlgorithm algorithm);

/// Limits of the choice, measured over shared memory with 2 ranks on 2 cores and 4 ranks on 2 cores
/// (tests/bench/all_reduce_mpi with each algorithm forced, microseconds, smallest of many):
///   2 ranks   2 KiB: doubling 2.1, ring 3.2    32 KiB: 10.7, 15.8    128 KiB: 25.8, 28.7
///   4 ranks   8 B: direct 9.8, doubling 11.6, ring 21.6    2 KiB: 24, 21, 38
///             32 KiB: 77, 61, 75    64 KiB: 128, 88, 82    128 KiB: 150, 190, 103
inline constexpr std::int64_t kDirectBytes = 1024;
inline constexpr int kDirectRanks = 8;
inline constexpr std::int64_t kDoublingBytes = 32 * 1024;
/// Of two ranks, doubling sends no more than the ring, in one step instead of two.
inline constexpr std::int64_t kPairDoublingBytes = 128 * 1024;
inline constexpr std::int64_t kTreeBytes = 16 * 1024;
/// Ring and chain cut messages into segments of this size unless told otherwise.
inline constexpr std::int64_t kSegmentBytes = 1024 * 1024;

/// Two ranks: kRecursiveDoubling up to kPairDoublingBytes, then kRing. More: kDirect up to
/// kDirectBytes and kDirectRanks, kRecursiveDoubling up to kDoublingBytes, kRing beyond.
[[nodiscard]] AllReduceAlgorithm choose_all_reduce(std::int64_t bytes, int ranks);

/// kBinomialTree up to kTreeBytes and always for two ranks, kPipelinedChain beyond.
[[nodiscard]] BroadcastAlgorithm choose_broadcast(std::int64_t bytes, int ranks);

/// What the busiest rank does. `steps` follow one another, each starts when the one before has
/// arrived (what latency multiplies); `sent_bytes` is payload without headers.
struct CollectiveTraffic {
  int steps = 0;
  double sent_bytes = 0.0;
  friend bool operator==(const CollectiveTraffic&, const CollectiveTraffic&) = default;
};

/// Direct: 1 step, (n-1) bytes. Recursive doubling: log2 n steps of bytes each; with p =
/// 2^floor(log2 n) < n: log2 p + 2 steps, (log2 p + 1) bytes. Ring: 2(n-1) steps, 2(n-1)/n bytes.
[[nodiscard]] CollectiveTraffic all_reduce_traffic(AllReduceAlgorithm algorithm, std::int64_t bytes,
                                                   int ranks);

/// Ring: n-1 steps, (n-1)/n bytes. Holds for reduce-scatter and for all-gather.
[[nodiscard]] CollectiveTraffic ring_half_traffic(std::int64_t bytes, int ranks);

/// Binomial: d = ceil(log2 n) steps, the root sends d bytes. Chain with segments of
/// `segment_bytes`: (n-2) + ceil(bytes/segment) steps of one segment, each rank but the last sends
/// `bytes` once.
[[nodiscard]] CollectiveTraffic broadcast_traffic(BroadcastAlgorithm algorithm, std::int64_t bytes,
                                                  int ranks, std::int64_t segment_bytes);

/// How the ring cuts its parts (one per rank, the longest of `longest_part` elements).
struct RingCut {
  std::int64_t segment = 0;  ///< elements; begins on a cache line of the part
  std::int64_t lanes = 0;    ///< segments that go around together, at most kRingLanes
  std::int64_t passes = 0;   ///< times that all lanes go around
  friend bool operator==(const RingCut&, const RingCut&) = default;
};
inline constexpr std::int64_t kRingLanes = 4;
/// Ring collectives of a group that move data at once; later ones wait for their turn, in the order
/// in which they were issued. Enough to hide the latency of each behind the others, few enough that
/// the first is through early and that scratch memory does not grow with the queue.
inline constexpr int kRingsAtOnce = 4;
[[nodiscard]] RingCut cut_ring(std::int64_t longest_part, std::int64_t element_bytes,
                               std::int64_t segment_bytes);

/// Bytes of a slot, in which one segment lands before it is added: its cache lines and one more,
/// since it may begin anywhere in one.
[[nodiscard]] std::int64_t ring_slot_bytes(const RingCut& cut, std::int64_t element_bytes);

/// Slots in which the ring's all-reduce receives: as many as segments of its first half may be on
/// their way, min(2 kRingLanes, lanes (n-1)). The second half lands in place.
[[nodiscard]] std::int64_t ring_all_reduce_slots(const RingCut& cut, int ranks);

/// Memory beside the data that a rank's all-reduce of `count` elements takes while it is under way,
/// with segments of kSegmentBytes: ring_all_reduce_slots slots; 0 for the other algorithms, whose
/// messages are small.
[[nodiscard]] std::int64_t all_reduce_scratch_bytes(std::int64_t count, std::int64_t element_bytes,
                                                    int ranks);

/// Every rank exchanges a block of bytes/n with each other rank, all at once: 1 step, (n-1)/n
/// bytes.
[[nodiscard]] CollectiveTraffic all_to_all_traffic(std::int64_t bytes, int ranks);

/// Dissemination: ceil(log2 n) steps without payload. Also runs beside the data of every collective
/// but the direct and doubling all-reduce, to tell when all ranks have arrived.
[[nodiscard]] CollectiveTraffic barrier_traffic(int ranks);

}  // namespace parplan
