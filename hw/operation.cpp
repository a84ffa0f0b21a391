#include "hw/operation.hpp"

#include <array>
#include <cstdio>

namespace parplan::hw {

Group::Group(CommContext comm_context, std::string group_name, std::vector<int> ranks, int own_rank,
             int transport_channel, bool close_at_end)
    : context(comm_context),
      name(std::move(group_name)),
      world_ranks(std::move(ranks)),
      rank(own_rank),
      channel(transport_channel),
      owns_channel_(close_at_end) {}

Group::~Group() {
  if (owns_channel_) {
    context.transport.close_channel(channel);
  }
}

Request Group::send(int peer, int tag, std::span<const std::byte> data) const {
  return {context.transport, context.transport.isend(channel, peer, tag, data)};
}

Request Group::receive(int peer, int tag, std::span<std::byte> data) const {
  return {context.transport, context.transport.irecv(channel, peer, tag, data)};
}

Operation::Operation(std::shared_ptr<const Group> group, const CommCall& call,
                     std::uint32_t sequence)
    : group_(std::move(group)), call_(call), sequence_(sequence) {
  times_.posted = Clock::now();
  last_moved_ = times_.posted;
}

bool Operation::step(Clock::time_point now) noexcept {
  moved_ = false;
  if (done() || failed()) {
    return false;
  }
  try {
    moved_ = advance();
  } catch (...) {
    error_ = std::current_exception();
    moved_ = true;
  }
  if (moved_) {
    last_moved_ = now;
  }
  if (arrived_now_ && !times_.peer_arrived.has_value()) {
    times_.peer_arrived = Clock::now();  // not `now`: this rank may have lost its core since
  }
  if (complete_now_) {
    times_.completed = Clock::now();
  }
  return moved_;
}

void Operation::rethrow_if_failed() const {
  if (error_ != nullptr) {
    std::rethrow_exception(error_);
  }
}

int Operation::world_rank(int group_rank) const {
  return group_->world_ranks[static_cast<std::size_t>(group_rank)];
}

std::string Operation::describe() const {
  std::string text = "rank " + std::to_string(world_rank(group_->rank)) + " (group " +
                     group_->name + ", " + std::string(name_of(call_.kind)) + " #" +
                     std::to_string(sequence_);
  if (call_.kind != CommKind::kBarrier) {
    text += " of " + bytes_in_words(std::max(call_.input.bytes(), call_.output.bytes()));
  }
  return text + ")";
}

std::string bytes_in_words(std::size_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

Pending launch(std::unique_ptr<Operation> operation) {
  Progress& progress = operation->group().context.progress;
  operation->step(Clock::now());
  const Clock::duration spent = Clock::now() - operation->times().posted;
  operation->times().cpu += spent;
  operation->times().in_progress += spent;
  if (operation->failed()) {
    try {
      operation->rethrow_if_failed();
    } catch (const std::exception& error) {
      progress.break_down(error.what());
      throw;
    }
  }
  Pending pending(std::move(operation));
  return pending;
}

Pending::Pending() noexcept = default;
Pending::Pending(Pending&&) noexcept = default;

Pending::Pending(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {
  if (operation_ != nullptr && !operation_->done()) {
    operation_->group().context.progress.add(*operation_);
  }
}

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    abandon();
    operation_ = std::move(other.operation_);
  }
  return *this;
}

Pending::~Pending() { abandon(); }

void Pending::abandon() noexcept {
  if (operation_ == nullptr) {
    return;
  }
  Progress& progress = operation_->group().context.progress;
  if (!operation_->done()) {
    progress.remove(*operation_);
    if (!operation_->failed()) {
      progress.break_down(operation_->describe() + " was abandoned before it was complete");
    }
  }
  operation_.reset();
}

bool Pending::done() const { return operation_ == nullptr || operation_->done(); }

bool Pending::test() {
  if (done()) {
    return true;
  }
  operation_->rethrow_if_failed();
  Progress& progress = operation_->group().context.progress;
  progress.check();
  progress.poll();
  operation_->rethrow_if_failed();
  if (!operation_->done()) {
    progress.check();
  }
  return operation_->done();
}

void Pending::wait() {
  if (operation_ != nullptr) {
    operation_->group().context.progress.wait(*operation_, std::nullopt);
  }
}

void Pending::wait(Clock::time_point deadline) {
  if (operation_ != nullptr) {
    operation_->group().context.progress.wait(*operation_, deadline);
  }
}

const CommTimes& Pending::times() const {
  static const CommTimes kNothing = [] {
    CommTimes times;
    times.peer_arrived = times.completed = times.posted;
    return times;
  }();
  return operation_ == nullptr ? kNothing : operation_->times();
}

}  // namespace parplan::hw
