#include <array>
#include <atomic>

#include "hw/local/thread_transport.hpp"
#include "hw/rank_reason.hpp"
#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/comm_checks.hpp"

using namespace parplan;
using namespace parplan::hw;
using Catch::Matchers::StartsWith;

namespace {

WorldOptions patience(double timeout_s) {
  WorldOptions options;
  options.wait.timeout = std::chrono::duration<double>(timeout_s);
  return options;
}

/// What run_thread_ranks throws, and what each rank itself met.
struct Outcome {
  std::string failure;
  std::vector<std::string> by_rank;
  double seconds = 0.0;
};

Outcome run(int ranks, const std::function<void(World&)>& rank_main, double timeout_s = 20.0) {
  Outcome outcome;
  outcome.by_rank.resize(static_cast<std::size_t>(ranks));
  const auto begin = Clock::now();
  try {
    run_thread_ranks(
        ranks,
        [&](World& world) {
          try {
            rank_main(world);
          } catch (const std::exception& error) {
            outcome.by_rank[static_cast<std::size_t>(world.rank())] = error.what();
            throw;
          }
        },
        patience(timeout_s));
  } catch (const HwError& error) {
    outcome.failure = error.what();
  }
  outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return outcome;
}

}  // namespace

TEST_CASE("a rank that throws ends the waits of all others with its reason", "[hw]") {
  const Outcome outcome = run(4, [](World& world) {
    std::vector<float> data(100000, 1.0F);
    world.all().all_reduce_sum(data).wait();
    if (world.rank() == 2) {
      throw std::runtime_error("disk full");
    }
    world.all().all_reduce_sum(data).wait();
  });
  CHECK(outcome.failure == "rank 2: disk full");
  for (const int rank : {0, 1, 3}) {
    CHECK(outcome.by_rank[static_cast<std::size_t>(rank)] == "rank 2: disk full");
  }
  CHECK(outcome.seconds < 10.0);
}

TEST_CASE("the kind of the first failure is kept", "[hw]") {
  const auto throwing = [](auto error) {
    return [error](World& world) {
      if (world.rank() == 1) {
        throw error;
      }
      world.barrier();
    };
  };
  CHECK_THROWS_AS(run_thread_ranks(2, throwing(InputError("no such file"))), InputError);
  CHECK_THROWS_AS(run_thread_ranks(2, throwing(InternalError("broken promise"))), InternalError);
  CHECK_THROWS_WITH(run_thread_ranks(2, throwing(InputError("no such file"))),
                    "rank 1: no such file");
}

TEST_CASE("different collectives on two ranks are an error that names both", "[hw]") {
  const Outcome outcome = run(2, [](World& world) {
    std::vector<float> data(1000);
    std::vector<float> part(500);
    Pending pending =
        world.rank() == 0 ? world.all().all_reduce_sum(data) : world.all().all_gather(part, data);
    pending.wait();
  });
  CHECK_THAT(outcome.failure, ContainsSubstring("ranks do not do the same"));
  CHECK_THAT(outcome.failure, ContainsSubstring("all_reduce of 1000 float32 as #1"));
  CHECK_THAT(outcome.failure, ContainsSubstring("all_gather of 1000 float32 as #1"));
}

TEST_CASE("different counts, types, roots or keys are an error on every algorithm", "[hw]") {
  struct Difference {
    const char* what;
    Pending (*start)(Communicator&, std::vector<float>&, std::vector<double>&, bool odd);
  };
  const std::vector<Difference> differences = {
      {"small counts",
       [](Communicator& c, auto& f, auto&, bool odd) {
         return c.all_reduce_sum(std::span(f).first(odd ? 10 : 11));
       }},
      {"doubling counts",
       [](Communicator& c, auto& f, auto&, bool odd) {
         return c.all_reduce_sum(std::span(f).first(odd ? 3990 : 3999));
       }},
      {"ring counts",
       [](Communicator& c, auto& f, auto&, bool odd) {
         return c.all_reduce_sum(std::span(f).first(odd ? 99999 : 100000));
       }},
      {"small against large",
       [](Communicator& c, auto& f, auto&, bool odd) {
         return c.all_reduce_sum(std::span(f).first(odd ? 10 : 100000));
       }},
      {"types",
       [](Communicator& c, auto& f, auto& d, bool odd) {
         return odd ? c.all_reduce_sum(std::span(f).first(1000))
                    : c.all_reduce_sum(std::span(d).first(1000));
       }},
      {"keys",
       [](Communicator& c, auto& f, auto&, bool odd) { return c.all_reduce_sum(f, odd ? 7 : 8); }},
      {"roots",
       [](Communicator& c, auto& f, auto&, bool odd) { return c.broadcast(f, odd ? 1 : 0); }},
      {"broadcast against barrier", [](Communicator& c, auto& f, auto&,
                                       bool odd) { return odd ? c.barrier() : c.broadcast(f, 0); }},
      {"all_to_all counts",
       [](Communicator& c, auto& f, auto&, bool odd) {
         static thread_local std::vector<float> out(100000);
         const std::size_t n = static_cast<std::size_t>(c.size()) * (odd ? 10 : 20);
         return c.all_to_all(std::span(f).first(n), std::span(out).first(n));
       }},
  };
  for (const Difference& difference : differences) {
    for (const int ranks : {2, 3, 4}) {
      INFO(difference.what << " with " << ranks << " ranks");
      std::atomic<int> completed{0};
      const Outcome outcome = run(ranks, [&](World& world) {
        std::vector<float> floats(100000);
        std::vector<double> doubles(100000);
        difference.start(world.all(), floats, doubles, world.rank() == ranks - 1).wait();
        ++completed;
      });
      CHECK_THAT(outcome.failure, ContainsSubstring("ranks do not do the same"));
      CHECK(completed == 0);  // nobody believes in a result
      CHECK(outcome.seconds < 10.0);
    }
  }
}

TEST_CASE("a receive of another size than the send is an error that names both", "[hw]") {
  for (const auto& [sent, received] : std::vector<std::pair<std::size_t, std::size_t>>{
           {10, 11}, {11, 10}, {10, 100000}, {100000, 10}, {99999, 100000}, {100000, 99999}}) {
    INFO(sent << " sent, " << received << " received");
    const std::array counts{sent, received};
    const Outcome outcome = run(2, [&counts](World& world) {
      std::vector<float> data(counts[static_cast<std::size_t>(world.rank())]);
      (world.rank() == 0 ? world.all().send(data, 1, 5) : world.all().receive(data, 0, 5)).wait();
      world.barrier();
    });
    CHECK_THAT(outcome.failure, ContainsSubstring("ranks do not do the same"));
    CHECK_THAT(outcome.failure,
               ContainsSubstring("transfer of " + std::to_string(sent) + " float32"));
    CHECK_THAT(outcome.failure,
               ContainsSubstring("transfer of " + std::to_string(received) + " float32"));
  }
}

TEST_CASE("the transport itself refuses a message of another size and names both", "[hw]") {
  for (const std::size_t sent : {8, 16, 100000}) {
    for (const bool receive_first : {true, false}) {
      ThreadHub hub(2);
      ThreadTransport a(hub, 0);
      ThreadTransport b(hub, 1);
      const std::vector<std::byte> out(sent);
      std::vector<std::byte> in(12);
      Request receive;
      Request send;
      if (receive_first) {
        receive = Request(b, b.irecv(0, 0, 3, in));
        send = Request(a, a.isend(0, 1, 3, out));
      } else {
        send = Request(a, a.isend(0, 1, 3, out));
        receive = Request(b, b.irecv(0, 0, 3, in));
      }
      CHECK(send.test());
      CHECK_THROWS_WITH(receive.test(),
                        "rank 1 posted a receive of 12 bytes from rank 0, which sent " +
                            std::to_string(sent) + " bytes");
    }
  }
}

TEST_CASE("a rank that never comes is named when the wait is over", "[hw]") {
  const auto late = [](World& world, CommKind kind) {
    std::vector<float> data(1000000);
    Communicator& c = world.all();
    if (world.rank() == 1) {
      const auto until = Clock::now() + std::chrono::milliseconds(700);
      while (Clock::now() < until && !world.progress().outstanding()) {
      }
      c.barrier().wait();
      return;
    }
    switch (kind) {
      case CommKind::kSend:
        return (world.rank() == 0 ? c.send(data, 1, 3) : c.barrier()).wait();
      case CommKind::kReceive:
        return (world.rank() == 0 ? c.receive(data, 1, 3) : c.barrier()).wait();
      default:
        return c.all_reduce_sum(data).wait();
    }
  };
  const auto failure = [&](int ranks, CommKind kind) {
    return run(
               ranks, [&](World& world) { late(world, kind); }, 0.3)
        .failure;
  };
  CHECK_THAT(failure(2, CommKind::kAllReduce),
             StartsWith("rank 0 (group world, all_reduce #1 of 4.0 MB) waited 0.") &&
                 ContainsSubstring(" s for rank 1: it has not started the operation"));
  CHECK_THAT(failure(2, CommKind::kSend),
             StartsWith("rank 0 (group world, send #1 of 4.0 MB) waited 0.") &&
                 ContainsSubstring(" s for rank 1: it has not posted the receive (tag 3)"));
  CHECK_THAT(failure(2, CommKind::kReceive),
             StartsWith("rank 0 (group world, receive #1 of 4.0 MB) waited 0.") &&
                 ContainsSubstring(" s for rank 1: it has not sent anything (tag 3)"));
  // Of four ranks two see only others that wait: the verdict is left to the one that knows.
  CHECK_THAT(failure(4, CommKind::kAllReduce),
             ContainsSubstring(" for rank 1: it has not started"));
}

TEST_CASE("a wait with a deadline of its own ends there", "[hw]") {
  const Outcome outcome = run(2, [](World& world) {
    float number = 0.0F;
    if (world.rank() == 0) {
      world.all()
          .receive(std::span(&number, 1), 1, 0)
          .wait(Clock::now() + std::chrono::milliseconds(100));
    }
    world.barrier();
  });
  CHECK_THAT(outcome.failure,
             ContainsSubstring("rank 0 (group world, receive #1 of 4 B) waited 0."));
}

TEST_CASE("waiting for a rank that has finished fails at once", "[hw]") {
  const Outcome outcome = run(3, [](World& world) {
    if (world.rank() == 1) {
      return;  // its last step is missing
    }
    std::vector<float> data(100000);
    world.all().all_reduce_sum(data).wait();
  });
  CHECK_THAT(outcome.failure, ContainsSubstring("rank 1"));
  CHECK_THAT(outcome.failure, ContainsSubstring("has finished and will send nothing more"));
  CHECK(outcome.seconds < 5.0);
}

TEST_CASE("an abandoned operation ends communication on its rank and then the world", "[hw]") {
  std::string next_call;
  const Outcome outcome = run(2, [&](World& world) {
    std::vector<float> data(100000);
    if (world.rank() == 0) {
      { const Pending dropped = world.all().receive(data, 1, 0); }
      try {
        (void)world.all().barrier();
      } catch (const HwError& error) {
        next_call = error.what();
      }
      return;
    }
    world.all().all_reduce_sum(data).wait();
  });
  CHECK_THAT(next_call,
             ContainsSubstring("rank 0 (group world, receive #1 of 400.0 kB) was abandoned"));
  CHECK_THAT(outcome.failure, ContainsSubstring("was abandoned before it was complete"));
}

TEST_CASE("a failure found while polling is thrown by the next call", "[hw]") {
  const Outcome outcome = run(2, [](World& world) {
    std::vector<float> data(100000);
    std::vector<float> other(50);
    Pending pending =
        world.all().all_reduce_sum(world.rank() == 0 ? std::span(data) : std::span(other));
    const auto until = Clock::now() + std::chrono::seconds(5);
    bool noticed = false;
    while (!noticed && Clock::now() < until) {
      world.progress().poll();
      try {
        world.progress().check();
      } catch (const HwError&) {
        noticed = true;
      }
    }
    (void)world.all().barrier();
    throw std::logic_error("the failure was lost");
  });
  CHECK_THAT(outcome.failure, ContainsSubstring("ranks do not do the same"));
}

TEST_CASE("groups created in different orders are an error that names them", "[hw]") {
  const Outcome outcome = run(3, [](World& world) {
    const bool odd = world.rank() == 1;
    (void)world.create_group(std::array{0, 1}, odd ? "tp" : "dp");
    (void)world.create_group(std::array{0, 1}, odd ? "dp" : "tp");
  });
  CHECK_THAT(outcome.failure, ContainsSubstring("create group "));
  CHECK_THAT(outcome.failure, ContainsSubstring(" of ranks 0 1: "));
}

TEST_CASE("finish refuses to leave operations behind", "[hw]") {
  const Outcome outcome = run(2, [](World& world) {
    float number = 0.0F;
    Pending pending;
    if (world.rank() == 0) {
      pending = world.all().receive(std::span(&number, 1), 1, 0);
    }
    world.finish();
  });
  CHECK(outcome.failure == "rank 0 finishes with 1 operations outstanding");
}

TEST_CASE("a reason carries its rank once", "[hw]") {
  CHECK_THAT(with_rank(2, "disk full"), StartsWith("rank 2: disk full"));
  CHECK_THAT(with_rank(2, "rank 2 (group dp) waited"), StartsWith("rank 2 (group dp) waited"));
  CHECK_THAT(with_rank(2, "rank 21 waited"), StartsWith("rank 2: rank 21 waited"));
}
