#include "hw/collectives/broadcast_tree.hpp"

#include <algorithm>

#include "sim/core/collective_algorithm.hpp"

namespace parplan::hw {

BroadcastOperation::BroadcastOperation(std::shared_ptr<const Group> own_group, const CommCall& call,
                                       std::uint32_t sequence)
    : SynchronisedOperation(std::move(own_group), call, sequence) {
  const std::size_t limit = group().context.segment_bytes;
  segments_ = (call.output.bytes() + limit - 1) / limit;
  plan_tree();
  sends_.resize(children_.size() * kWindow);
  if (parent_ < 0) {
    posted_ = received_ = segments_;
  }
}

void BroadcastOperation::plan_tree() {
  const int n = group().size();
  const int root = call().peer;
  const int place = (group().rank - root + n) % n;
  const auto rank_at = [&](int p) { return (p + root) % n; };
  switch (choose_broadcast(static_cast<std::int64_t>(call().output.bytes()), n)) {
    case BroadcastAlgorithm::kPipelinedChain:
      if (place > 0) {
        parent_ = rank_at(place - 1);
      }
      if (place + 1 < n) {
        children_.push_back(rank_at(place + 1));
      }
      return;
    case BroadcastAlgorithm::kBinomialTree: {
      // The parent lacks the lowest set bit; children add a lower bit, the farthest (the largest
      // subtree) first.
      int bit = 1;
      while (bit < n && (place & bit) == 0) {
        bit *= 2;
      }
      if (place > 0) {
        parent_ = rank_at(place - bit);
      }
      for (bit /= 2; bit > 0; bit /= 2) {
        if (place + bit < n) {
          children_.push_back(rank_at(place + bit));
        }
      }
      return;
    }
  }
}

std::span<std::byte> BroadcastOperation::segment(std::size_t index) const {
  const std::size_t limit = group().context.segment_bytes;
  const std::size_t begin = index * limit;
  return {call().output.data + begin, std::min(limit, call().output.bytes() - begin)};
}

bool BroadcastOperation::receive_segments() {
  bool moved = false;
  const int tag = tag_in(TagSpace::kData, sequence());
  while (posted_ < segments_ && posted_ - received_ < kWindow) {
    receives_[posted_ % kWindow] = group().receive(parent_, tag, segment(posted_));
    ++posted_;
    moved = true;
  }
  while (received_ < posted_ && receives_[received_ % kWindow].test()) {
    times().received_bytes += static_cast<std::int64_t>(segment(received_).size());
    ++received_;
    moved = true;
  }
  return moved;
}

bool BroadcastOperation::send_segments() {
  bool moved = false;
  const int tag = tag_in(TagSpace::kData, sequence());
  while (sent_ < received_ && sent_ - retired_ < kWindow) {
    for (std::size_t child = 0; child < children_.size(); ++child) {
      const std::span<std::byte> data = segment(sent_);
      sends_[child * kWindow + sent_ % kWindow] = group().send(children_[child], tag, data);
      times().sent_bytes += static_cast<std::int64_t>(data.size());
    }
    ++sent_;
    moved = true;
  }
  const auto everybody_has = [&](std::size_t index) {
    bool all = true;
    for (std::size_t child = 0; child < children_.size(); ++child) {
      all = sends_[child * kWindow + index % kWindow].test() && all;
    }
    return all;
  };
  while (retired_ < sent_ && everybody_has(retired_)) {
    ++retired_;
    moved = true;
  }
  return moved;
}

bool BroadcastOperation::advance_data() {
  bool moved = false;
  while (true) {
    bool again = parent_ >= 0 && receive_segments();
    again = send_segments() || again;
    if (!again) {
      return moved;
    }
    moved = true;
  }
}

bool BroadcastOperation::data_done() const {
  return received_ == segments_ && retired_ == segments_;
}

Blocker BroadcastOperation::data_blocker() const {
  if (received_ < segments_) {
    return {world_rank(parent_), "receive of segment " + std::to_string(received_ + 1) + " of " +
                                     std::to_string(segments_) + " outstanding"};
  }
  const int child = children_.empty() ? group().rank : children_.back();
  return {world_rank(child), "send of segment " + std::to_string(retired_ + 1) + " of " +
                                 std::to_string(segments_) + " not received"};
}

}  // namespace parplan::hw
