#include "hw/collectives/signature.hpp"

#include <cstring>
#include <sstream>

namespace parplan::hw {

Signature signature_of(const CommCall& call, std::uint32_t sequence) {
  Signature s;
  s.key = call.key;
  s.sequence = sequence;
  s.kind = call.kind;
  switch (call.kind) {
    case CommKind::kAllReduce:
    case CommKind::kAllGather:
    case CommKind::kAllToAll:
      s.count = call.output.count;
      s.type = call.output.type;
      break;
    case CommKind::kReduceScatter:
      s.count = call.input.count;
      s.type = call.input.type;
      break;
    case CommKind::kBroadcast:
      s.count = call.output.count;
      s.type = call.output.type;
      s.peer = call.peer;
      break;
    case CommKind::kBarrier:
      break;
    case CommKind::kSend:
      s.count = call.input.count;
      s.type = call.input.type;
      s.peer = call.tag;
      s.sequence = 0;
      break;
    case CommKind::kReceive:
      s.kind = CommKind::kSend;
      s.count = call.output.count;
      s.type = call.output.type;
      s.peer = call.tag;
      s.sequence = 0;
      break;
  }
  return s;
}

namespace {

std::string in_words(const Signature& s) {
  std::ostringstream text;
  if (s.kind == CommKind::kSend) {
    text << "a transfer of " << s.count << ' ' << name_of(s.type) << " with tag " << s.peer;
  } else {
    text << name_of(s.kind);
    if (s.kind != CommKind::kBarrier) {
      text << " of " << s.count << ' ' << name_of(s.type);
    }
    if (s.kind == CommKind::kBroadcast) {
      text << " from rank " << s.peer << " of the group";
    }
    text << " as #" << s.sequence;
  }
  if (s.key != 0) {
    text << " (key 0x" << std::hex << s.key << ')';
  }
  return text.str();
}

}  // namespace

void require_same(const Group& group, const Signature& mine, const Signature& theirs, int peer) {
  if (std::memcmp(&mine, &theirs, sizeof(Signature)) == 0) {
    return;
  }
  std::ostringstream text;
  text << "group " << group.name << ": ranks do not do the same: rank "
       << group.world_ranks[static_cast<std::size_t>(group.rank)] << " does " << in_words(mine)
       << ", rank " << group.world_ranks[static_cast<std::size_t>(peer)] << " does "
       << in_words(theirs);
  throw HwError(text.str());
}

bool test_signed(const Group& group, const Signature& mine, Request& request,
                 std::span<const std::byte> message, int peer) {
  ensure(message.size() >= sizeof(Signature), "a message starts with its signature");
  const auto require = [&] {
    Signature theirs;
    std::memcpy(&theirs, message.data(), sizeof(Signature));
    require_same(group, mine, theirs, peer);
  };
  try {
    if (!request.test()) {
      return false;
    }
  } catch (const SizeMismatch&) {
    require();
    throw;
  }
  require();
  return true;
}

int tag_in(TagSpace space, std::uint32_t value) {
  constexpr std::uint32_t kSpaces = 4;
  constexpr std::uint32_t kValues = static_cast<std::uint32_t>(Transport::kTagLimit) / kSpaces;
  return static_cast<int>((value % kValues) * kSpaces + static_cast<std::uint32_t>(space));
}

}  // namespace parplan::hw
