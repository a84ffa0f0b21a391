#include "hw/collectives/pieces.hpp"

#include <algorithm>

namespace parplan::hw {

void Pieces::send(const Group& group, int peer, int tag, std::span<const std::byte> data) {
  for (std::size_t at = 0; at < data.size(); at += kPieceBytes) {
    requests_.push_back(
        group.send(peer, tag, data.subspan(at, std::min(kPieceBytes, data.size() - at))));
  }
}

void Pieces::receive(const Group& group, int peer, int tag, std::span<std::byte> data) {
  for (std::size_t at = 0; at < data.size(); at += kPieceBytes) {
    requests_.push_back(
        group.receive(peer, tag, data.subspan(at, std::min(kPieceBytes, data.size() - at))));
  }
}

bool Pieces::test(bool& moved) {
  while (completed_ < requests_.size() && requests_[completed_].test()) {
    ++completed_;
    moved = true;
  }
  return completed_ == requests_.size();
}

}  // namespace parplan::hw
