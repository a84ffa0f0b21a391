#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hw/operation.hpp"

namespace parplan::hw {

/// One large message to or from a peer, cut into pieces that every transport can count (MPI counts
/// in int). All pieces are posted at once; both ends cut alike. Nothing is posted for no bytes.
class Pieces {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 28;

  void send(const Group& group, int peer, int tag, std::span<const std::byte> data);
  void receive(const Group& group, int peer, int tag, std::span<std::byte> data);

  /// True once all are complete. `moved` becomes true when another piece is.
  bool test(bool& moved);
  [[nodiscard]] std::size_t count() const { return requests_.size(); }
  [[nodiscard]] std::size_t completed() const { return completed_; }

 private:
  std::vector<Request> requests_;
  std::size_t completed_ = 0;
};

}  // namespace parplan::hw
