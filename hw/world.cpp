#include "hw/world.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>

#include "hw/collectives/group_communicator.hpp"
#include "hw/copy_bytes.hpp"
#include "hw/mpi/mpi_process.hpp"
#include "hw/operation.hpp"
#include "hw/rank_reason.hpp"
#include "hw/transport.hpp"

namespace parplan::hw {

namespace {

// FNV-1a: equal text, equal key on every rank.
std::uint64_t key_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Bytes travel as 32-bit numbers, the last one filled with zeros.
std::vector<std::int32_t> packed(std::string_view bytes) {
  std::vector<std::int32_t> words((bytes.size() + 3) / 4);
  if (!bytes.empty()) {
    copy_bytes(words.data(), bytes.data(), bytes.size());
  }
  return words;
}

std::string unpacked(const std::vector<std::int32_t>& words, std::int64_t length) {
  return {reinterpret_cast<const char*>(words.data()), static_cast<std::size_t>(length)};
}

using Number = std::array<std::int32_t, 2>;  // a 64-bit number on its way

Number to_number(std::int64_t value) {
  Number number;
  std::memcpy(number.data(), &value, sizeof(value));
  return number;
}

std::int64_t from_number(const Number& number) {
  std::int64_t value = 0;
  std::memcpy(&value, number.data(), sizeof(value));
  return value;
}

/// Longer than launchers need to end a job whose rank 0 has failed.
constexpr std::chrono::milliseconds kPatienceWithRankZero{1500};
/// With an open world the launcher is quicker: it only has to pass on what a rank has told it.
constexpr std::chrono::milliseconds kPatiencePerRank{300};
constexpr int kMostTurns = 4;

constexpr int kLengthTag = 0;
constexpr int kDataTag = 1;
constexpr int kClockTag = 2;
constexpr int kClockExchanges = 64;

}  // namespace

struct World::State {
  State(std::unique_ptr<Transport> own_transport, const WorldOptions& world_options);

  [[nodiscard]] std::shared_ptr<const Group> group_on(int channel, std::string name);
  void agree(const std::string& what);

  std::unique_ptr<Transport> transport;
  WorldOptions options;
  Progress progress;
  BufferPool buffers;
  std::unique_ptr<GroupCommunicator> all;
  std::unique_ptr<GroupCommunicator> control;
  bool finished = false;
};

World::State::State(std::unique_ptr<Transport> own_transport, const WorldOptions& world_options)
    : transport(std::move(own_transport)),
      options(world_options),
      progress(*transport, options.wait,
               transport->ranks_on_this_host() * options.threads_per_rank > usable_cores()) {
  all = std::make_unique<GroupCommunicator>(group_on(Transport::kWorldChannel, "world"));
  control = std::make_unique<GroupCommunicator>(group_on(Transport::kControlChannel, "control"));
}

std::shared_ptr<const Group> World::State::group_on(int channel, std::string name) {
  std::vector<int> ranks(static_cast<std::size_t>(transport->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_shared<const Group>(
      CommContext{*transport, progress, buffers, options.segment_bytes}, std::move(name),
      std::move(ranks), transport->rank(), channel, false);
}

// Every rank must be here with the same `what`.
void World::State::agree(const std::string& what) {
  try {
    control->barrier(key_of(what)).wait();
  } catch (const HwError& error) {
    throw HwError(what + ": " + error.what());
  }
}

World::World(std::unique_ptr<Transport> transport, const WorldOptions& options) {
  if (options.segment_bytes < 64 || options.threads_per_rank < 1) {
    throw InputError("world options: segment_bytes is at least 64 and threads_per_rank at least 1");
  }
  state_ = std::make_unique<State>(std::move(transport), options);
  state_->agree("open the world with segments of " + std::to_string(options.segment_bytes) +
                " bytes");
}

World::~World() {
  if (!state_->finished && std::uncaught_exceptions() == 0) {
    state_->transport->left_early();
  }
}

int World::rank() const { return state_->transport->rank(); }
int World::size() const { return state_->transport->size(); }
const std::vector<std::string>& World::host_names() const {
  return state_->transport->host_names();
}
const std::string& World::host_name() const {
  return host_names()[static_cast<std::size_t>(rank())];
}
const WorldOptions& World::options() const { return state_->options; }
Communicator& World::all() { return *state_->all; }
Progress& World::progress() { return state_->progress; }

std::unique_ptr<Communicator> World::create_group(std::span<const int> ranks, std::string name) {
  std::string what = "create group " + name + " of ranks";
  std::vector<int> members(ranks.begin(), ranks.end());
  for (const int rank : members) {
    what += " " + std::to_string(rank);
    if (rank < 0 || rank >= size()) {
      throw InputError(what + ": there is no rank " + std::to_string(rank));
    }
    if (std::count(members.begin(), members.end(), rank) > 1) {
      throw InputError(what + ": rank " + std::to_string(rank) + " comes twice");
    }
  }
  state_->agree(what);
  const auto own = std::find(members.begin(), members.end(), rank());
  if (own == members.end()) {
    return nullptr;
  }
  const auto rank_in_group = static_cast<int>(own - members.begin());
  const int channel = state_->transport->open_channel(members);
  return std::make_unique<GroupCommunicator>(std::make_shared<const Group>(
      CommContext{*state_->transport, state_->progress, state_->buffers,
                  state_->options.segment_bytes},
      std::move(name), std::move(members), rank_in_group, channel, true));
}

std::vector<std::string> World::gather(std::string_view bytes) {
  Communicator& control = *state_->control;
  Number length = to_number(static_cast<std::int64_t>(bytes.size()));
  if (rank() != 0) {
    const std::vector<std::int32_t> words = packed(bytes);
    control.send(length, 0, kLengthTag).wait();
    control.send(words, 0, kDataTag).wait();
    return {};
  }
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::string> result(ranks);
  result[0] = bytes;
  std::vector<Number> lengths(ranks);
  std::vector<std::vector<std::int32_t>> words(ranks);
  std::vector<Pending> pending(ranks);
  for (std::size_t r = 1; r < ranks; ++r) {
    pending[r] = control.receive(lengths[r], static_cast<int>(r), kLengthTag);
  }
  for (std::size_t r = 1; r < ranks; ++r) {
    pending[r].wait();
    words[r].resize(static_cast<std::size_t>(from_number(lengths[r]) + 3) / 4);
    pending[r] = control.receive(words[r], static_cast<int>(r), kDataTag);
  }
  for (std::size_t r = 1; r < ranks; ++r) {
    pending[r].wait();
    result[r] = unpacked(words[r], from_number(lengths[r]));
    words[r] = {};
  }
  return result;
}

std::string World::broadcast(std::string_view bytes) {
  Communicator& control = *state_->control;
  Number length = to_number(static_cast<std::int64_t>(bytes.size()));
  control.broadcast(length, 0).wait();
  std::vector<std::int32_t> words =
      rank() == 0
          ? packed(bytes)
          : std::vector<std::int32_t>(static_cast<std::size_t>(from_number(length) + 3) / 4);
  control.broadcast(words, 0).wait();
  return unpacked(words, from_number(length));
}

ClockOffset World::align_clock() {
  Communicator& control = *state_->control;
  const auto now = [] { return Clock::now().time_since_epoch().count(); };
  Number message{};
  ClockOffset best;
  best.uncertainty = std::chrono::duration<double>::max();
  const int partners = rank() == 0 ? size() - 1 : 1;
  for (int partner = 1; partner <= partners; ++partner) {
    for (int i = 0; i < kClockExchanges; ++i) {
      if (rank() == 0) {
        control.receive(message, partner, kClockTag).wait();
        message = to_number(now());
        control.send(message, partner, kClockTag).wait();
        continue;
      }
      const std::int64_t sent = now();
      control.send(message, 0, kClockTag).wait();
      control.receive(message, 0, kClockTag).wait();
      const Clock::duration round_trip(now() - sent);
      const std::chrono::duration<double> half = round_trip / 2.0;
      if (half < best.uncertainty) {
        best.uncertainty = half;
        best.offset = Clock::duration(sent - from_number(message)) + half;
      }
    }
  }
  barrier();
  return rank() == 0 ? ClockOffset{} : best;
}

void World::barrier() { state_->control->barrier().wait(); }

void World::finish() {
  if (state_->finished) {
    return;
  }
  if (state_->progress.outstanding() > 0) {
    throw HwError("rank " + std::to_string(rank()) + " finishes with " +
                  std::to_string(state_->progress.outstanding()) + " operations outstanding");
  }
  state_->progress.check();
  state_->transport->announce_finish();
  state_->agree("finish");
  state_->transport->close();
  state_->finished = true;
}

std::string with_rank(int rank, std::string_view reason) {
  const std::string name = "rank " + std::to_string(rank);
  const std::size_t end = name.size();
  const bool named = reason.substr(0, end) == name &&
                     (reason.size() == end || reason[end] == ' ' || reason[end] == ':');
  return named ? std::string(reason) : name + ": " + std::string(reason);
}

bool launched_by_mpi() {
  constexpr std::array kNames = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

std::optional<int> launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* text = launched_by_mpi() ? std::getenv(name) : nullptr;
    int rank = 0;
    if (text == nullptr) continue;
    const char* const end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, rank);
    if (error == std::errc{} && stop == end && rank >= 0) return rank;
  }
  return std::nullopt;
}

void abort_world(int code, std::string_view reason) {
  // The launcher ends the job, and a wait below, when a rank with a lower number fails too.
  std::signal(SIGTERM, SIG_DFL);
  std::optional<int> rank = open_mpi_rank();
  if (rank) {
    std::this_thread::sleep_for(std::min(*rank, kMostTurns) * kPatiencePerRank);
  } else if (launched_rank().value_or(0) > 0) {
    std::this_thread::sleep_for(kPatienceWithRankZero);
    rank = launched_rank();
  }
  const std::string line =
      "parplan: " + (rank ? with_rank(*rank, reason) : std::string(reason)) + "\n";
  std::fflush(nullptr);
  // One write, so that the lines of several ranks do not mix.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
    code = code == 0 ? 1 : code;  // nowhere to complain; the exit code still tells
  }
  abort_mpi(code);
  std::_Exit(code);
}

}  // namespace parplan::hw
