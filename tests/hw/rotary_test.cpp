#include "hw/cpu/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

using namespace parplan::hw;
using namespace parplan::hw::test;

TEMPLATE_TEST_CASE("rotary positions turn pairs i and i + d/2, backward turns them back", "[hw]",
                   float, double) {
  using T = TestType;
  const std::int64_t batch = 2, sequence = 5, heads = 3, d = 8, offset = 100;
  const std::int64_t stride = GENERATE(24, 40);  // alone; first part of a fused projection
  const std::int64_t rows = batch * sequence;
  const auto frequencies = rotary_frequencies(d, 10000.0);
  CHECK(frequencies[0] == 1.0);
  CHECK(frequencies[1] == Approx(0.1).epsilon(1e-15));  // 10000^(-2/8)
  CHECK(frequencies[3] == Approx(1e-3).epsilon(1e-15));
  const auto before = draws<T>(rows * stride, "x");
  std::vector<double> expected = cast<double>(before);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < d / 2; ++i) {
        const auto low = static_cast<std::size_t>(r * stride + h * d + i);
        const std::size_t high = low + static_cast<std::size_t>(d / 2);
        const double angle =
            static_cast<double>(r % sequence + offset) * frequencies[static_cast<std::size_t>(i)];
        const std::complex<double> turned =
            std::complex<double>(before[low], before[high]) * std::polar(1.0, angle);
        expected[low] = turned.real();
        expected[high] = turned.imag();
      }
    }
  }
  auto x = before;
  Rotary<T> args{x.data(),          rows, heads, d, stride, RowPositions{sequence, offset},
                 frequencies.data()};
  rotary(args);
  // Angles near 100 are rounded to 32 units of double, on both sides; |x| up to 3.
  CHECK(worst_error(x, expected) < (sizeof(T) == sizeof(double) ? 100 : 4));
  args.direction = RotaryDirection::kBackward;
  rotary(args);
  CHECK(worst_error(x, before) < 4);
}

TEST_CASE("every position turns as sine and cosine say, in whatever part of the sequence it lies",
          "[hw]") {
  const std::int64_t d = 10, rows = 50;
  const auto frequencies = rotary_frequencies(d, 10000.0);
  const std::int64_t offset = GENERATE(0, 7, 100000);
  std::vector<double> whole(static_cast<std::size_t>(rows * d));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    whole[i] = i % d < d / 2 ? 1.0 : 0.0;
  }
  auto parts = whole;
  rotary<double>({whole.data(), rows, 1, d, d, {rows, offset}, frequencies.data()});
  double worst = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < d / 2; ++i) {
      const double angle =
          static_cast<double>(r + offset) * frequencies[static_cast<std::size_t>(i)];
      const auto at = static_cast<std::size_t>(r * d + i);
      worst = std::max(worst, std::abs(whole[at] - std::cos(angle)));
      worst =
          std::max(worst, std::abs(whole[at + static_cast<std::size_t>(d / 2)] - std::sin(angle)));
    }
  }
  // Angles near 1e5 are rounded to 1.5e-11 / 2, once in each of the two turns and once here.
  CHECK(worst < (offset > 1000 ? 2.5e-11 : 1e-14));
  rotary<double>({parts.data(), 23, 1, d, d, {23, offset}, frequencies.data()});
  rotary<double>({parts.data() + 23 * d, 27, 1, d, d, {27, offset + 23}, frequencies.data()});
  CHECK(parts == whole);
}

TEST_CASE("rotary refuses what it cannot turn", "[hw]") {
  std::vector<float> x(2000);
  const std::vector<double> frequencies(1000);
  const auto run = [&](std::int64_t d, std::int64_t stride, std::int64_t offset) {
    rotary<float>({x.data(), 1, 1, d, stride, {1, offset}, frequencies.data()});
  };
  CHECK_NOTHROW(run(512, 512, 0));
  CHECK_THROWS_AS(run(514, 514, 0), parplan::InternalError);
  CHECK_THROWS_AS(run(7, 7, 0), parplan::InternalError);
  CHECK_THROWS_AS(run(8, 7, 0), parplan::InternalError);
  CHECK_THROWS_AS(run(8, 8, -1), parplan::InternalError);
}

TEST_CASE("rotary scores depend on the distance of positions alone", "[hw]") {
  const std::int64_t d = 64;
  const auto frequencies = rotary_frequencies(d, 500000.0);
  const auto q = draws<double>(d, "q");
  const auto k = draws<double>(d, "k");
  const auto score = [&](std::int64_t at_q, std::int64_t at_k) {
    auto turned_q = q, turned_k = k;
    rotary<double>({turned_q.data(), 1, 1, d, d, {1, at_q}, frequencies.data()});
    rotary<double>({turned_k.data(), 1, 1, d, d, {1, at_k}, frequencies.data()});
    return dot(turned_q, turned_k);
  };
  CHECK(score(5, 3) == Approx(score(1005, 1003)).epsilon(1e-10));
  CHECK(std::abs(score(5, 3) - score(5, 4)) > 1e-3);
}

TEST_CASE("Llama 3 scaling keeps fast pairs, slows long ones and blends between", "[hw]") {
  // Llama 3.1 8B: head of 128, theta 500000, factor 8, low 1, high 4, original context 8192.
  const auto plain = rotary_frequencies(128, 500000.0);
  const auto scaled = rotary_frequencies(128, 500000.0, Llama3RopeScaling{8, 1, 4, 8192});
  int kept = 0, slowed = 0, blended = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    // As transformers writes it, in wavelengths.
    const double wavelength = 2 * M_PI / plain[i];
    double expected = plain[i];
    if (wavelength > 8192.0 / 1) {
      expected = plain[i] / 8;
      ++slowed;
    } else if (wavelength < 8192.0 / 4) {
      ++kept;
    } else {
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      expected = (1 - smooth) * plain[i] / 8 + smooth * plain[i];
      ++blended;
    }
    CHECK(scaled[i] == Approx(expected).epsilon(1e-13));
  }
  // ln(2048 / 2 pi) / ln(500000) * 64 = 28.2: pairs 0..28 kept; ln(8192 / 2 pi)
  // likewise 34.98: 35..63 slowed.
  CHECK(kept == 29);
  CHECK(blended == 6);
  CHECK(slowed == 29);
  CHECK(scaled[0] == 1.0);
  CHECK(scaled[63] == plain[63] / 8);
}
