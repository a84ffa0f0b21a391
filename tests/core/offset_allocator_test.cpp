#include "sim/core/offset_allocator.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"

using parplan::Bytes;
using parplan::InternalError;
using parplan::OffsetAllocator;

TEST_CASE("allocations are adjacent, aligned and at least one unit", "[core]") {
  OffsetAllocator arena;
  CHECK(arena.allocate(Bytes{1}) == 0);
  CHECK(arena.allocate(Bytes{64}) == 64);
  CHECK(arena.allocate(Bytes{65}) == 128);  // takes two units
  CHECK(arena.allocate(Bytes{0}) == 256);   // takes one all the same
  CHECK(arena.in_use() == Bytes{320});
  CHECK(arena.extent() == Bytes{320});
}

TEST_CASE("the smallest block that fits is used, the lowest on a tie", "[core]") {
  OffsetAllocator arena;
  std::vector<std::int64_t> places;
  for (const std::int64_t size : {256, 64, 128, 64, 128, 64}) {
    places.push_back(arena.allocate(Bytes{size}));
  }
  arena.release(places[4], Bytes{128});
  arena.release(places[0], Bytes{256});
  arena.release(places[2], Bytes{128});
  CHECK(arena.allocate(Bytes{100}) == places[2]);
  CHECK(arena.allocate(Bytes{128}) == places[4]);
  CHECK(arena.allocate(Bytes{128}) == places[0]);  // splits the block of 256
  CHECK(arena.allocate(Bytes{128}) == places[0] + 128);
  CHECK(arena.allocate(Bytes{64}) == 704);
}

TEST_CASE("freed neighbours merge and the end of the range comes down", "[core]") {
  OffsetAllocator arena;
  const std::int64_t a = arena.allocate(Bytes{64});
  const std::int64_t b = arena.allocate(Bytes{64});
  const std::int64_t c = arena.allocate(Bytes{64});
  const std::int64_t d = arena.allocate(Bytes{64});
  arena.release(a, Bytes{64});
  arena.release(c, Bytes{64});
  arena.release(b, Bytes{64});  // joins both sides
  CHECK(arena.allocate(Bytes{192}) == a);
  arena.release(a, Bytes{192});
  arena.release(d, Bytes{64});
  CHECK(arena.empty());
  CHECK(arena.allocate(Bytes{1000}) == 0);
  CHECK(arena.extent() == Bytes{1024});
}

TEST_CASE("releasing what is not in use is an internal error", "[core]") {
  OffsetAllocator arena;
  const std::int64_t a = arena.allocate(Bytes{64});
  const std::int64_t b = arena.allocate(Bytes{128});
  (void)arena.allocate(Bytes{64});
  arena.release(b, Bytes{128});
  CHECK_THROWS_AS(arena.release(b, Bytes{64}), InternalError);
  CHECK_THROWS_AS(arena.release(b + 64, Bytes{64}), InternalError);
  CHECK_THROWS_AS(arena.release(a, Bytes{128}), InternalError);
  CHECK_THROWS_AS(arena.release(a + 1, Bytes{64}), InternalError);
  CHECK_THROWS_AS(arena.release(256, Bytes{64}), InternalError);
}

namespace {

struct Block {
  std::int64_t offset;
  std::int64_t size;
};

/// A random mixture of allocations and releases; returns every offset handed out.
std::vector<std::int64_t> random_run(unsigned seed) {
  std::mt19937 random(seed);
  OffsetAllocator arena;
  std::vector<Block> live;
  std::vector<std::int64_t> offsets;
  std::int64_t in_use = 0;
  std::int64_t highest = 0;
  for (int step = 0; step < 3000; ++step) {
    if (live.empty() || random() % 100 < 52) {
      const auto size = static_cast<std::int64_t>(random() % 5000);
      const Block block{arena.allocate(Bytes{size}), size};
      const std::int64_t end = block.offset + OffsetAllocator::rounded(Bytes{size});
      for (const Block& other : live) {
        const std::int64_t other_end = other.offset + OffsetAllocator::rounded(Bytes{other.size});
        REQUIRE((end <= other.offset || other_end <= block.offset));
      }
      REQUIRE(block.offset % OffsetAllocator::kAlignment == 0);
      in_use += end - block.offset;
      highest = std::max(highest, end);
      live.push_back(block);
      offsets.push_back(block.offset);
    } else {
      const std::size_t victim = random() % live.size();
      arena.release(live[victim].offset, Bytes{live[victim].size});
      in_use -= OffsetAllocator::rounded(Bytes{live[victim].size});
      live[victim] = live.back();
      live.pop_back();
    }
    REQUIRE(arena.in_use() == Bytes{in_use});
    REQUIRE(arena.extent() == Bytes{highest});
  }
  for (const Block& block : live) arena.release(block.offset, Bytes{block.size});
  CHECK(arena.empty());
  CHECK(arena.allocate(Bytes{highest}) == 0);  // all blocks have merged
  return offsets;
}

}  // namespace

TEST_CASE("random runs never overlap, account exactly and repeat", "[core]") {
  for (unsigned seed = 1; seed <= 5; ++seed) CHECK(random_run(seed) == random_run(seed));
}
