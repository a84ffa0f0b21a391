#pragma once

#include <cstddef>
#include <vector>

#include "hw/collectives/handshake.hpp"
#include "sim/core/collective_algorithm.hpp"

namespace parplan::hw {

/// All-reduce, reduce-scatter and all-gather around a ring: every step, each rank sends one part of
/// the data to the next rank and receives another from the rank before.
///
///   all-reduce      2(n-1) steps; step t sends part r-t, receives part r-t-1 (mod n) and adds it
///                   while t < n-1, replaces with it afterwards
///   reduce-scatter  n-1 steps; step t sends part r-t-1, receives part r-t-2 and adds it
///   all-gather      n-1 steps; step t sends part r-t, receives part r-t-1
///
/// Parts follow balanced_part; each is cut into segments. The unit of work is an item: one segment
/// in one step. Items are numbered so that `lanes` segments go through all steps together before
/// the next ones follow: item i belongs to pass i / (lanes * steps), and within it to step and
/// lane. Every rank posts its receives and its sends in the order of these numbers, so one tag is
/// enough, and the send of item i + lanes carries what arrived as item i. The sum of an element is
/// formed once, in the order of the ring beginning behind its part's last rank, and copied: all
/// ranks get the same bits.
///
/// No rank waits for ever: a receive needs a slot, freed by the completion of the send of an
/// earlier item (slots > lanes), and a send needs only earlier items, so the smallest item that is
/// not through anywhere can always move. Of a group's rings the first kRingsAtOnce that are not
/// complete move. All ranks issue them in one order, so that the first of all is among them
/// everywhere.
class RingOperation final : public SynchronisedOperation {
 public:
  /// `call.kind` is one of the three.
  RingOperation(std::shared_ptr<const Group> group, const CommCall& call, std::uint32_t sequence);
  ~RingOperation() override;

 protected:
  bool advance_data() override;
  [[nodiscard]] bool data_done() const override { return finished_; }
  [[nodiscard]] Blocker data_blocker() const override;

 private:
  static constexpr std::size_t kSlots = 2 * kRingLanes;

  struct Segment {
    int part = 0;
    std::size_t offset = 0;  ///< bytes from the start of the whole
    std::size_t bytes = 0;   ///< 0: this part has no such segment; nothing is sent
  };

  [[nodiscard]] std::size_t items() const { return passes_ * steps_ * lanes_; }
  [[nodiscard]] std::size_t step_of(std::size_t item) const { return item / lanes_ % steps_; }
  [[nodiscard]] Segment segment(std::size_t item, bool receiving) const;
  [[nodiscard]] std::byte* slot(std::size_t item, const Segment& s) const;
  [[nodiscard]] std::size_t scratch_slots() const;
  [[nodiscard]] bool reduces(std::size_t item) const { return step_of(item) < reduce_steps_; }
  [[nodiscard]] std::byte* landing(std::size_t item, const Segment& s) const;
  [[nodiscard]] const std::byte* source(std::size_t item, const Segment& s) const;
  [[nodiscard]] bool may_receive(std::size_t item) const;
  [[nodiscard]] bool may_send(std::size_t item) const;

  void plan_segments();
  bool try_begin();
  void end();
  bool post_receives();
  bool take_received();
  bool post_sends();
  bool retire_sends();
  void add_received(std::size_t item, const Segment& s);

  CommKind kind_;
  DType type_;
  std::size_t count_;       ///< elements of the whole
  const std::byte* input_;  ///< reduce-scatter: the whole; else as output_
  std::byte* output_;       ///< the whole; reduce-scatter: this rank's part
  std::size_t steps_ = 0;
  std::size_t reduce_steps_ = 0;
  std::size_t segment_count_ = 0;  ///< elements
  std::size_t slot_bytes_ = 0;
  std::size_t lanes_ = 0;
  std::size_t passes_ = 0;
  std::vector<Part> parts_;

  BufferPool::Buffer scratch_;
  Request receives_[kSlots];
  Request sends_[kSlots];
  std::size_t posted_ = 0;   ///< receives posted
  std::size_t taken_ = 0;    ///< received and added
  std::size_t sent_ = 0;     ///< sends posted
  std::size_t retired_ = 0;  ///< sends complete, in order
  bool under_way_ = false;   ///< counts in Group::rings_under_way
  bool finished_ = false;
};

}  // namespace parplan::hw
