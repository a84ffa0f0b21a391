#include <exception>
#include <thread>
#include <vector>

#include "hw/local/thread_transport.hpp"
#include "hw/rank_reason.hpp"
#include "hw/world.hpp"

namespace parplan::hw {

namespace {

/// The only rank of its world, with the hub it needs.
class SingleTransport final : public ThreadTransport {
 public:
  explicit SingleTransport(std::unique_ptr<ThreadHub> hub)
      : ThreadTransport(*hub, 0), owned_hub_(std::move(hub)) {}

 private:
  std::unique_ptr<ThreadHub> owned_hub_;
};

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "unknown exception";
  }
}

void run_rank(ThreadHub& hub, int rank, const std::function<void(World&)>& rank_main,
              const WorldOptions& options, std::exception_ptr& error) {
  try {
    World world(std::make_unique<ThreadTransport>(hub, rank), options);
    rank_main(world);
    world.finish();
  } catch (...) {
    error = std::current_exception();
    hub.fail(rank, reason_of(error));
  }
}

[[noreturn]] void throw_named(int rank, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const InputError& e) {
    throw InputError(with_rank(rank, e.what()));
  } catch (const InternalError& e) {
    throw InternalError(with_rank(rank, e.what()));
  } catch (...) {
    throw HwError(with_rank(rank, reason_of(error)));
  }
}

}  // namespace

std::unique_ptr<World> open_single_world(const WorldOptions& options) {
  return std::make_unique<World>(std::make_unique<SingleTransport>(std::make_unique<ThreadHub>(1)),
                                 options);
}

void run_thread_ranks(int ranks, const std::function<void(World&)>& rank_main,
                      const WorldOptions& options) {
  if (ranks < 1) {
    throw InputError("a world has at least one rank, not " + std::to_string(ranks));
  }
  ThreadHub hub(ranks);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      run_rank(hub, rank, rank_main, options, errors[static_cast<std::size_t>(rank)]);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (const std::optional<int> first = hub.failed_rank()) {
    throw_named(*first, errors[static_cast<std::size_t>(*first)]);
  }
}

}  // namespace parplan::hw
