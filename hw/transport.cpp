#include "hw/transport.hpp"

namespace parplan::hw {

SizeMismatch::SizeMismatch(int receiver, int sender, std::size_t posted_bytes,
                           std::size_t sent_bytes)
    : HwError("rank " + std::to_string(receiver) + " posted a receive of " +
              std::to_string(posted_bytes) + " bytes from rank " + std::to_string(sender) +
              ", which sent " + std::to_string(sent_bytes) + " bytes") {}

}  // namespace parplan::hw
