#include "hw/page_buffer.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "tests/catch2_compat.hpp"

using parplan::Bytes;
using parplan::resident_bytes;
using parplan::hw::PageBuffer;
using parplan::hw::unmap_pages;

namespace {

constexpr auto kHugePage = static_cast<std::size_t>(parplan::kHugePage.value);
constexpr auto kLeastHuge = static_cast<std::size_t>(parplan::kLeastHugeBuffer.value);

/// Kibibytes of address space of this process.
std::int64_t mapped_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (status >> word) {
    if (word == "VmSize:" && status >> kib) return kib;
  }
  return 0;
}

}  // namespace

TEST_CASE("pages are zero, writable to the last byte, and large ones aligned to huge pages",
          "[hw]") {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4096}, std::size_t{5000}, kLeastHuge - 1, kLeastHuge,
        kHugePage - 1, kHugePage, kHugePage + 1, 3 * kHugePage + 12345}) {
    INFO(size);
    const PageBuffer buffer(size);
    REQUIRE(buffer.size() == size);
    CHECK(std::all_of(buffer.data(), buffer.data() + size,
                      [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(buffer.data(), size, std::byte{7});
    if (size >= kLeastHuge) CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % kHugePage == 0);
  }
  CHECK(PageBuffer().empty());
  CHECK(PageBuffer(0).data() == nullptr);
}

TEST_CASE("pages are given back, whoever owns them last", "[hw]") {
  const std::int64_t before = mapped_kib();
  for (int i = 0; i < 50; ++i) {
    PageBuffer first(10 * kHugePage + 100);
    PageBuffer second = std::move(first);
    PageBuffer third;
    third = std::move(second);
    PageBuffer given(5000);
    std::byte* const data = given.release();
    CHECK(given.empty());
    unmap_pages(data, 5000);
  }
  // One buffer that stayed behind would be 20 MiB.
  CHECK(mapped_kib() - before < 20 * 1024);
}

TEST_CASE("a buffer keeps whole huge pages resident from a quarter of a mebibyte on", "[hw]") {
  CHECK(resident_bytes(Bytes{0}) == Bytes{0});
  CHECK(resident_bytes(Bytes{(256 << 10) - 1}) == Bytes{(256 << 10) - 1});
  CHECK(resident_bytes(Bytes{256 << 10}) == Bytes{2 << 20});
  CHECK(resident_bytes(Bytes{2 << 20}) == Bytes{2 << 20});
  CHECK(resident_bytes(Bytes{(2 << 20) + 1}) == Bytes{4 << 20});
}

TEST_CASE("a rank's tensors lie one behind the other, at multiples of 64 bytes", "[hw]") {
  const parplan::RankBlock block =
      parplan::rank_block(parplan::flat_buffers(25, parplan::DType::kFloat32), Bytes{1000});
  CHECK(block.parameters == Bytes{0});
  CHECK(block.gradients == Bytes{128});
  CHECK(block.first_moment == Bytes{256});
  CHECK(block.second_moment == Bytes{384});
  CHECK(block.arena == Bytes{512});
  CHECK(block.size == Bytes{1512});
}

TEST_CASE("a 16-bit precision keeps 18 bytes for a parameter", "[hw]") {
  // 2 for the weight, 4 each for master weight, gradient and both moments (Micikevicius et al.).
  for (const parplan::DType half : {parplan::DType::kBFloat16, parplan::DType::kFloat16}) {
    const parplan::FlatBuffers flat = parplan::flat_buffers(1000, half);
    CHECK(flat.parameters == Bytes{2000});
    CHECK(flat.gradients == Bytes{4000});
    CHECK(flat.optimizer_state() == Bytes{12000});
    const parplan::RankBlock block = parplan::rank_block(flat, Bytes{64});
    CHECK(block.master_weights == Bytes{2048});
    CHECK(block.gradients == Bytes{6080});
    CHECK(block.size == Bytes{2048 + 4 * 4032 + 64});
  }
}
