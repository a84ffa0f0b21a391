#include "hw/collectives/all_to_all.hpp"

#include "hw/copy_bytes.hpp"

namespace parplan::hw {

AllToAllOperation::AllToAllOperation(std::shared_ptr<const Group> own_group, const CommCall& call,
                                     std::uint32_t sequence)
    : SynchronisedOperation(std::move(own_group), call, sequence) {
  const int n = group().size();
  const int rank = group().rank;
  const int tag = tag_in(TagSpace::kData, sequence);
  const std::size_t block = call.output.bytes() / static_cast<std::size_t>(n);
  const auto in_block = [&](int r) {
    return std::span(call.input.data + block * static_cast<std::size_t>(r), block);
  };
  const auto out_block = [&](int r) {
    return std::span(call.output.data + block * static_cast<std::size_t>(r), block);
  };
  receives_.resize(static_cast<std::size_t>(n - 1));
  sends_.resize(static_cast<std::size_t>(n - 1));
  for (int distance = 1; distance < n; ++distance) {
    const int from = (rank - distance + n) % n;
    receives_[static_cast<std::size_t>(distance - 1)].receive(group(), from, tag, out_block(from));
  }
  for (int distance = 1; distance < n; ++distance) {
    const int to = (rank + distance) % n;
    sends_[static_cast<std::size_t>(distance - 1)].send(group(), to, tag, in_block(to));
  }
  copy_bytes(out_block(rank).data(), in_block(rank).data(), block);
  times().sent_bytes = times().received_bytes = static_cast<std::int64_t>(block) * (n - 1);
}

bool AllToAllOperation::advance_data() {
  if (finished_) {
    return false;
  }
  bool moved = false;
  bool all = true;
  for (Pieces& pieces : receives_) {
    all = pieces.test(moved) && all;
  }
  for (Pieces& pieces : sends_) {
    all = pieces.test(moved) && all;
  }
  finished_ = all;
  return moved || all;
}

Blocker AllToAllOperation::data_blocker() const {
  const int n = group().size();
  for (int distance = 1; distance < n; ++distance) {
    const Pieces& pieces = receives_[static_cast<std::size_t>(distance - 1)];
    if (pieces.completed() < pieces.count()) {
      return {world_rank((group().rank - distance + n) % n), "receive of its block outstanding"};
    }
  }
  for (int distance = 1; distance < n; ++distance) {
    const Pieces& pieces = sends_[static_cast<std::size_t>(distance - 1)];
    if (pieces.completed() < pieces.count()) {
      return {world_rank((group().rank + distance) % n), "send of its block not received"};
    }
  }
  return {group().world_ranks[static_cast<std::size_t>(group().rank)], "nothing"};
}

}  // namespace parplan::hw
