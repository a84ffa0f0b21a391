#include "hw/collectives/ring.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hw/collectives/add.hpp"

namespace parplan::hw {

namespace {

// Segments begin on cache lines of the part.
constexpr std::size_t kSegmentGrain = 64;

}  // namespace

RingOperation::RingOperation(std::shared_ptr<const Group> ring_group, const CommCall& call,
                             std::uint32_t sequence)
    : SynchronisedOperation(std::move(ring_group), call, sequence),
      kind_(call.kind),
      type_(call.output.type),
      count_(kind_ == CommKind::kReduceScatter ? call.input.count : call.output.count),
      input_(kind_ == CommKind::kReduceScatter ? call.input.data : call.output.data),
      output_(call.output.data) {
  const int n = group().size();
  const auto around = static_cast<std::size_t>(n - 1);
  steps_ = kind_ == CommKind::kAllReduce ? 2 * around : around;
  reduce_steps_ = kind_ == CommKind::kAllGather ? 0 : around;
  parts_.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    parts_.push_back(balanced_part(count_, n, i));
  }
  plan_segments();
  if (kind_ == CommKind::kAllGather) {
    const Part own = parts_[static_cast<std::size_t>(group().rank)];
    std::byte* place = output_ + own.offset * size_of(type_);
    if (place != call.input.data && own.count > 0) {
      std::memcpy(place, call.input.data, own.count * size_of(type_));
    }
  }
  finished_ = items() == 0;
}

RingOperation::~RingOperation() { end(); }

// Progress steps operations in the order of their issue, so a turn goes to the earliest that waits.
bool RingOperation::try_begin() {
  if (under_way_) {
    return true;
  }
  if (group().rings_under_way >= kRingsAtOnce) {
    return false;
  }
  if (reduce_steps_ > 0) {
    scratch_ = group().context.buffers.take(scratch_slots() * slot_bytes_);
  }
  under_way_ = true;
  ++group().rings_under_way;
  return true;
}

void RingOperation::end() {
  scratch_ = {};
  if (under_way_) {
    under_way_ = false;
    --group().rings_under_way;
  }
}

void RingOperation::plan_segments() {
  const std::size_t longest = parts_.front().count;
  if (longest == 0) {
    return;
  }
  const auto element = static_cast<std::int64_t>(size_of(type_));
  const RingCut cut = cut_ring(static_cast<std::int64_t>(longest), element,
                               static_cast<std::int64_t>(group().context.segment_bytes));
  segment_count_ = static_cast<std::size_t>(cut.segment);
  lanes_ = static_cast<std::size_t>(cut.lanes);
  passes_ = static_cast<std::size_t>(cut.passes);
  slot_bytes_ = static_cast<std::size_t>(ring_slot_bytes(cut, element));
}

// A pass of an all-reduce has a multiple of kSlots items where there is more than one pass, so the
// items of its first half, which alone are received in slots, always meet the same ones.
std::size_t RingOperation::scratch_slots() const {
  return kind_ == CommKind::kAllReduce ? std::min(kSlots, lanes_ * reduce_steps_)
                                       : std::min(kSlots, items());
}

RingOperation::Segment RingOperation::segment(std::size_t item, bool receiving) const {
  const auto n = static_cast<std::size_t>(group().size());
  const std::size_t back = step_of(item) + (receiving ? 1 : 0) +
                           (kind_ == CommKind::kReduceScatter ? 1 : 0);  // at most 2n
  const std::size_t part = (static_cast<std::size_t>(group().rank) + 2 * n - back) % n;
  const std::size_t index = item / (lanes_ * steps_) * lanes_ + item % lanes_;
  const std::size_t begin = std::min(index * segment_count_, parts_[part].count);
  const std::size_t end = std::min(begin + segment_count_, parts_[part].count);
  return {static_cast<int>(part), (parts_[part].offset + begin) * size_of(type_),
          (end - begin) * size_of(type_)};
}

// A slot lies in its cache lines as the segment lies in its own: copies and additions between the
// two (and the peer's, allocated alike) then cross no lines that they need not.
std::byte* RingOperation::slot(std::size_t item, const Segment& s) const {
  const auto phase = reinterpret_cast<std::uintptr_t>(input_ + s.offset) % kSegmentGrain;
  return scratch_.data() + item % kSlots * slot_bytes_ + phase;
}

std::byte* RingOperation::landing(std::size_t item, const Segment& s) const {
  return reduces(item) ? slot(item, s) : output_ + s.offset;
}

const std::byte* RingOperation::source(std::size_t item, const Segment& s) const {
  const bool from_slot = kind_ == CommKind::kReduceScatter && step_of(item) > 0;
  return from_slot ? slot(item - lanes_, s) : input_ + s.offset;
}

bool RingOperation::may_receive(std::size_t item) const {
  if (item >= items() || item - taken_ >= kSlots) {
    return false;
  }
  if (kind_ == CommKind::kReduceScatter) {
    // The slot's last content was sent as item - kSlots + lanes (or was the last step's result).
    return item < kSlots || step_of(item - kSlots) + 1 == steps_ ||
           retired_ > item - kSlots + lanes_;
  }
  // All-gather's half of an all-reduce overwrites what was sent n-1 steps before.
  return reduces(item) || reduce_steps_ == 0 || retired_ > item - reduce_steps_ * lanes_;
}

bool RingOperation::may_send(std::size_t item) const {
  if (item >= items() || item - retired_ >= kSlots) {
    return false;
  }
  return step_of(item) == 0 || taken_ > item - lanes_;
}

bool RingOperation::post_receives() {
  const int n = group().size();
  const int from = (group().rank + n - 1) % n;
  const int tag = tag_in(TagSpace::kData, sequence());
  bool moved = false;
  while (may_receive(posted_)) {
    const Segment s = segment(posted_, true);
    if (s.bytes > 0) {
      receives_[posted_ % kSlots] = group().receive(from, tag, {landing(posted_, s), s.bytes});
    }
    ++posted_;
    moved = true;
  }
  return moved;
}

bool RingOperation::take_received() {
  bool moved = false;
  while (taken_ < posted_ && receives_[taken_ % kSlots].test()) {
    const Segment s = segment(taken_, true);
    times().received_bytes += static_cast<std::int64_t>(s.bytes);
    if (reduces(taken_) && s.bytes > 0) {
      add_received(taken_, s);
    }
    ++taken_;
    moved = true;
  }
  return moved;
}

void RingOperation::add_received(std::size_t item, const Segment& s) {
  const std::byte* mine = input_ + s.offset;
  std::byte* sum = output_ + s.offset;
  if (kind_ == CommKind::kReduceScatter) {
    const std::size_t own_offset = parts_[static_cast<std::size_t>(s.part)].offset * size_of(type_);
    sum = step_of(item) + 1 == steps_ ? output_ + (s.offset - own_offset) : slot(item, s);
  }
  add(sum, slot(item, s), mine, s.bytes / size_of(type_), type_);
}

bool RingOperation::post_sends() {
  const int to = (group().rank + 1) % group().size();
  const int tag = tag_in(TagSpace::kData, sequence());
  bool moved = false;
  while (may_send(sent_)) {
    const Segment s = segment(sent_, false);
    if (s.bytes > 0) {
      sends_[sent_ % kSlots] = group().send(to, tag, {source(sent_, s), s.bytes});
      times().sent_bytes += static_cast<std::int64_t>(s.bytes);
    }
    ++sent_;
    moved = true;
  }
  return moved;
}

bool RingOperation::retire_sends() {
  bool moved = false;
  while (retired_ < sent_ && sends_[retired_ % kSlots].test()) {
    ++retired_;
    moved = true;
  }
  return moved;
}

bool RingOperation::advance_data() {
  if (finished_ || !try_begin()) {
    return false;
  }
  bool moved = false;
  while (!finished_) {
    bool again = retire_sends();
    again = post_receives() || again;
    again = post_sends() || again;
    again = take_received() || again;
    if (taken_ == items() && retired_ == items()) {
      finished_ = true;
      end();
    }
    if (!again) {
      break;
    }
    moved = true;
  }
  return moved;
}

Blocker RingOperation::data_blocker() const {
  const int n = group().size();
  if (taken_ < items()) {
    return {world_rank((group().rank + n - 1) % n), "receive of segment " +
                                                        std::to_string(taken_ + 1) + " of " +
                                                        std::to_string(items()) + " outstanding"};
  }
  return {world_rank((group().rank + 1) % n), "send of segment " + std::to_string(retired_ + 1) +
                                                  " of " + std::to_string(items()) +
                                                  " not received"};
}

}  // namespace parplan::hw
