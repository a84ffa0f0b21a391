#include "hw/communicator.hpp"

#include "sim/core/error.hpp"

namespace parplan::hw {

namespace {

void require(bool condition, const Communicator& communicator, CommKind kind,
             const std::string& problem) {
  if (!condition) {
    throw InputError(std::string(name_of(kind)) + " in group " + communicator.name() + " of " +
                     std::to_string(communicator.size()) + " ranks: " + problem);
  }
}

std::string versus(std::size_t given, std::size_t right) {
  return std::to_string(given) + " elements given, " + std::to_string(right) + " needed";
}

}  // namespace

std::string_view name_of(CommKind kind) {
  switch (kind) {
    case CommKind::kAllReduce:
      return "all_reduce";
    case CommKind::kAllGather:
      return "all_gather";
    case CommKind::kReduceScatter:
      return "reduce_scatter";
    case CommKind::kBroadcast:
      return "broadcast";
    case CommKind::kAllToAll:
      return "all_to_all";
    case CommKind::kBarrier:
      return "barrier";
    case CommKind::kSend:
      return "send";
    case CommKind::kReceive:
      return "receive";
  }
  throw InternalError("internal error: unknown kind of communication");
}

Pending Communicator::begin(const CommCall& call, DType type) {
  require(supports(call.kind, type), *this, call.kind,
          "not supported for " + std::string(name_of(type)));
  return start(call);
}

Pending Communicator::all_reduce_sum(Elements data, std::uint64_t key) {
  return begin({CommKind::kAllReduce, data, data, 0, 0, key}, data.type);
}

Pending Communicator::all_gather(ConstElements part, Elements whole, std::uint64_t key) {
  constexpr CommKind kKind = CommKind::kAllGather;
  const std::size_t needed = balanced_part(whole.count, size(), rank()).count;
  require(part.type == whole.type, *this, kKind, "part and whole differ in type");
  require(part.count == needed, *this, kKind, "part: " + versus(part.count, needed));
  return begin({kKind, part, whole, 0, 0, key}, whole.type);
}

Pending Communicator::reduce_scatter_sum(ConstElements whole, Elements part, std::uint64_t key) {
  constexpr CommKind kKind = CommKind::kReduceScatter;
  const std::size_t needed = balanced_part(whole.count, size(), rank()).count;
  require(part.type == whole.type, *this, kKind, "part and whole differ in type");
  require(part.count == needed, *this, kKind, "part: " + versus(part.count, needed));
  return begin({kKind, whole, part, 0, 0, key}, whole.type);
}

Pending Communicator::broadcast(Elements data, int root, std::uint64_t key) {
  constexpr CommKind kKind = CommKind::kBroadcast;
  require(root >= 0 && root < size(), *this, kKind, "no rank " + std::to_string(root));
  return begin({kKind, data, data, root, 0, key}, data.type);
}

Pending Communicator::all_to_all(ConstElements input, Elements output, std::uint64_t key) {
  constexpr CommKind kKind = CommKind::kAllToAll;
  require(input.type == output.type, *this, kKind, "input and output differ in type");
  require(input.count == output.count, *this, kKind,
          "output: " + versus(output.count, input.count));
  require(input.count % static_cast<std::size_t>(size()) == 0, *this, kKind,
          std::to_string(input.count) + " elements do not divide into equal blocks");
  return begin({kKind, input, output, 0, 0, key}, input.type);
}

Pending Communicator::send(ConstElements data, int to, int tag, std::uint64_t key) {
  constexpr CommKind kKind = CommKind::kSend;
  check_transfer(kKind, to, tag);
  return begin({kKind, data, {}, to, tag, key}, data.type);
}

Pending Communicator::receive(Elements data, int from, int tag, std::uint64_t key) {
  constexpr CommKind kKind = CommKind::kReceive;
  check_transfer(kKind, from, tag);
  return begin({kKind, {}, data, from, tag, key}, data.type);
}

Pending Communicator::barrier(std::uint64_t key) {
  return begin({CommKind::kBarrier, {}, {}, 0, 0, key}, DType::kInt32);
}

void Communicator::check_transfer(CommKind kind, int peer, int tag) const {
  require(peer >= 0 && peer < size() && peer != rank(), *this, kind,
          "rank " + std::to_string(peer) + " is no other rank of the group");
  require(tag >= 0 && tag < kTagLimit, *this, kind,
          "tag " + std::to_string(tag) + " is not below " + std::to_string(kTagLimit));
}

}  // namespace parplan::hw
