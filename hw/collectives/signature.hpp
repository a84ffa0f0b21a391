#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "hw/operation.hpp"

namespace parplan::hw {

/// What two ranks must agree on before data of one operation means anything. Travels in front of
/// small messages and in the handshake of large ones. Ranks of one job run one binary, so it is
/// sent as it lies in memory.
struct Signature {
  std::uint64_t count = 0;
  std::uint64_t key = 0;
  std::uint32_t sequence = 0;  ///< number of the collective in its group; 0 for send and receive
  std::int32_t peer = 0;       ///< root of a broadcast; tag of a send and its receive
  CommKind kind = CommKind::kBarrier;  ///< kSend on both ends
  DType type = DType::kFloat32;
  std::uint8_t reserved[6] = {};
};
static_assert(sizeof(Signature) == 32 && std::is_trivially_copyable_v<Signature>);

[[nodiscard]] Signature signature_of(const CommCall& call, std::uint32_t sequence);

/// Throws HwError that names both ranks and what each of them does, unless the two agree.
void require_same(const Group& group, const Signature& mine, const Signature& theirs, int peer);

/// Tests the receive of a message that starts with a signature and, once it is complete, requires
/// the signature to agree. A message of another size is explained by its signature where that
/// differs.
[[nodiscard]] bool test_signed(const Group& group, const Signature& mine, Request& request,
                               std::span<const std::byte> message, int peer);

/// Tag of the next messages on a group's channel. Collectives have two tags by their number,
/// transfers two by their own tag, so that no two operations that may be outstanding together share
/// one. kHandshake and kToken carry messages that begin with a signature, whatever the operation,
/// so that different operations meet there and can tell; kTransfer begins with one.
enum class TagSpace : std::uint8_t { kHandshake, kData, kTransfer, kToken };
[[nodiscard]] int tag_in(TagSpace space, std::uint32_t value);

}  // namespace parplan::hw
