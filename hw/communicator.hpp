#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "hw/elements.hpp"
#include "hw/pending.hpp"

namespace parplan::hw {

enum class CommKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kBarrier,
  kSend,
  kReceive,
};

[[nodiscard]] std::string_view name_of(CommKind kind);

/// One call, as the backend sees it. Built by Communicator's named functions, already checked.
struct CommCall {
  CommKind kind = CommKind::kBarrier;
  ConstElements input;
  Elements output;  ///< in place for all-reduce and broadcast
  int peer = 0;  ///< root of a broadcast, or the other end of a send or receive; rank in the group
  int tag = 0;
  std::uint64_t key = 0;
};

/// One rank's view of a group of ranks. Calls start the transfer and return; nothing is done until
/// the Pending says so, and nothing moves unless Pending::test, Pending::wait or Progress::poll is
/// called. Any number of operations may be outstanding and may complete in any order.
///
/// Ranks are numbered within the group, 0..size()-1. All ranks of the group must start the same
/// collectives in the same order with the same kind, element type, count, root and `key`; each
/// operation carries these and its number, and a difference between two ranks is an HwError that
/// names both, on at least one of them, and never a hang or a completed operation with wrong data.
/// `key` is any number that both sides derive from the program (0: not compared beyond being 0 on
/// both).
///
/// Sums are bit-identical on all ranks and do not depend on timing. Errors: InputError for a call
/// that cannot be right by itself (counts that do not fit, a type without sum, a peer outside the
/// group), HwError for what the transport or another rank did. Not thread-safe: one thread per
/// rank.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;                          ///< this rank within the group
  virtual int size() const = 0;                          ///< ranks of the group
  virtual std::span<const int> world_ranks() const = 0;  ///< by rank within the group
  virtual const std::string& name() const = 0;           ///< e.g. "dp"
  virtual bool supports(CommKind kind, DType type) const = 0;

  /// data[i] becomes the sum over ranks of data[i], in place. float or double. Which algorithm runs
  /// is choose_all_reduce (sim/core/collective_algorithm.hpp).
  [[nodiscard]] Pending all_reduce_sum(Elements data, std::uint64_t key = 0);

  /// Every rank's part, in rank order, into `whole`. part.count must be
  /// balanced_part(whole.count, size(), rank()).count; `part` may lie at its place inside `whole`.
  [[nodiscard]] Pending all_gather(ConstElements part, Elements whole, std::uint64_t key = 0);

  /// `part` becomes the sum over ranks of this rank's balanced_part of `whole`, which is left as it
  /// is
  /// (`part` may lie at its place inside `whole`). float or double.
  [[nodiscard]] Pending reduce_scatter_sum(ConstElements whole, Elements part,
                                           std::uint64_t key = 0);

  /// The root's data replaces everybody's. Any type.
  [[nodiscard]] Pending broadcast(Elements data, int root, std::uint64_t key = 0);

  /// Block j of `input` goes to rank j; block i of `output` comes from rank i. Equal blocks: both
  /// counts are equal and a multiple of size(). Any type; input and output must not overlap.
  [[nodiscard]] Pending all_to_all(ConstElements input, Elements output, std::uint64_t key = 0);

  /// To and from another rank of the group. A send meets the receive of the same peer, direction
  /// and `tag`; equal tags meet in the order they were posted. Count, type and key must agree. Up
  /// to kEagerBytes a send completes without its receive; beyond, it completes once received, so
  /// two ranks that both wait for a send before posting the receive wait for ever: post both, then
  /// wait. 0 <= tag < kTagLimit.
  [[nodiscard]] Pending send(ConstElements data, int to, int tag, std::uint64_t key = 0);
  [[nodiscard]] Pending receive(Elements data, int from, int tag, std::uint64_t key = 0);

  /// Completes once all ranks have posted it.
  [[nodiscard]] Pending barrier(std::uint64_t key = 0);

  static constexpr std::size_t kEagerBytes = 2048;
  static constexpr int kTagLimit = 1 << 20;

 private:
  Pending begin(const CommCall& call, DType type);
  void check_transfer(CommKind kind, int peer, int tag) const;
  virtual Pending start(const CommCall& call) = 0;
};

}  // namespace parplan::hw
