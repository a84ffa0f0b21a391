#include <atomic>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/comm_checks.hpp"

using namespace parplan;
using namespace parplan::hw;

namespace {

// Small segments, so that moderate sizes go through many of them.
WorldOptions small_segments() {
  WorldOptions options;
  options.segment_bytes = 4096;
  options.wait.timeout = std::chrono::seconds(30);
  return options;
}

}  // namespace

TEST_CASE("a single process fulfils every statement about communicators", "[hw]") {
  for (const test::CommCheck& check : test::comm_checks()) {
    INFO(check.name);
    const std::unique_ptr<World> world = open_single_world(small_segments());
    CHECK_NOTHROW(check.run(*world));
    CHECK_NOTHROW(world->finish());
  }
}

TEST_CASE("ranks as threads fulfil every statement about communicators", "[hw]") {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    for (const test::CommCheck& check : test::comm_checks()) {
      INFO(check.name << " with " << ranks << " ranks");
      CHECK_NOTHROW(run_thread_ranks(ranks, check.run, small_segments()));
    }
  }
}

TEST_CASE("segments of any size give the same sums", "[hw]") {
  for (const std::size_t bytes : {64, 100, 1000, 65536, 1 << 20}) {
    WorldOptions options = small_segments();
    options.segment_bytes = bytes;
    INFO("segments of " << bytes << " bytes");
    CHECK_NOTHROW(run_thread_ranks(
        3,
        [](World& world) {
          std::vector<double> data(10007, 1.0 + world.rank());
          world.all().all_reduce_sum(data).wait();
          test::demand(world, data == std::vector<double>(10007, 6.0), "1 + 2 + 3");
        },
        options));
  }
}

TEST_CASE("the balanced partition covers everything once, longer parts first", "[hw]") {
  for (const std::size_t count : {0, 1, 6, 7, 8, 1000}) {
    for (int parts = 1; parts <= 7; ++parts) {
      std::size_t at = 0;
      for (int i = 0; i < parts; ++i) {
        const Part part = balanced_part(count, parts, i);
        CHECK(part.offset == at);
        CHECK(part.count >= count / static_cast<std::size_t>(parts));
        CHECK(part.count <= count / static_cast<std::size_t>(parts) + 1);
        at += part.count;
      }
      CHECK(at == count);
    }
  }
}

TEST_CASE("a call that cannot be right is refused before anything moves", "[hw]") {
  const std::unique_ptr<World> world = open_single_world();
  Communicator& c = world->all();
  std::vector<std::int32_t> numbers(3);
  std::vector<float> floats(3);
  std::vector<float> two(2);
  CHECK_THROWS_AS(c.all_reduce_sum(numbers), InputError);
  CHECK_THROWS_AS(c.reduce_scatter_sum(numbers, numbers), InputError);
  CHECK_THROWS_WITH(c.all_gather(two, floats),
                    "all_gather in group world of 1 ranks: part: 2 elements given, 3 needed");
  CHECK_THROWS_AS(c.all_gather(numbers, floats), InputError);
  CHECK_THROWS_AS(c.reduce_scatter_sum(floats, two), InputError);
  CHECK_THROWS_AS(c.broadcast(floats, 1), InputError);
  CHECK_THROWS_AS(c.broadcast(floats, -1), InputError);
  CHECK_THROWS_AS(c.all_to_all(floats, two), InputError);
  CHECK_THROWS_AS(c.send(floats, 0, 0), InputError);
  CHECK_THROWS_AS(c.receive(floats, 1, 0), InputError);
  CHECK_THROWS_AS(world->create_group(std::array{0, 0}, "twice"), InputError);
  CHECK_THROWS_AS(world->create_group(std::array{1}, "outside"), InputError);
  CHECK_THROWS_AS(open_single_world({{}, 8, 1}), InputError);
  CHECK(world->progress().outstanding() == 0);
  world->finish();
}
