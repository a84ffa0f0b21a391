#include "hw/cpu/embedding.hpp"

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

using namespace parplan::hw;
using namespace parplan::hw::test;

TEMPLATE_TEST_CASE("shards of an embedding sum to the whole, gradients are its rows", "[hw]", float,
                   double) {
  using T = TestType;
  const std::int64_t vocab = 10, cols = 7;
  const std::vector<std::int32_t> ids{3, 0, 9, 3, 5, 3, 8};
  const MatrixShape shape{static_cast<std::int64_t>(ids.size()), cols};
  const auto table = draws<T>(vocab * cols, "table");
  const auto dy = draws<T>(shape.count(), "dy");
  std::vector<T> y(static_cast<std::size_t>(shape.count()));
  embedding_forward<T>({ids.data(), table.data(), y.data(), shape, {vocab, 0, vocab}});
  for (std::size_t r = 0; r < ids.size(); ++r) {
    for (std::size_t c = 0; c < 7; ++c) {
      CHECK(y[r * 7 + c] == table[static_cast<std::size_t>(ids[r]) * 7 + c]);
    }
  }
  std::vector<T> dtable(table.size(), T{99});
  embedding_backward<T>({ids.data(), dy.data(), dtable.data(), shape, {vocab, 0, vocab}});
  for (std::size_t c = 0; c < 7; ++c) {
    CHECK(dtable[3 * 7 + c] == (dy[c] + dy[3 * 7 + c]) + dy[5 * 7 + c]);  // rows 0, 3, 5 in order
    CHECK(dtable[9 * 7 + c] == dy[2 * 7 + c]);
    CHECK(dtable[1 * 7 + c] == T{0});
  }
  // Three shards of 4 rows, the last two rows are padding.
  std::vector<T> sum(y.size());
  for (std::int64_t s = 0; s < 3; ++s) {
    std::vector<T> part(4 * 7), dpart(4 * 7, T{1}), py(y.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(s) * 28 + i;
      part[i] = at < table.size() ? table[at] : std::numeric_limits<T>::quiet_NaN();
    }
    const VocabShard shard{vocab, 4 * s, 4};
    embedding_forward<T>({ids.data(), part.data(), py.data(), shape, shard});
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += py[i];
    }
    embedding_backward<T>({ids.data(), dy.data(), dpart.data(), shape, shard, true});
    for (std::size_t i = 0; i < dpart.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(s) * 28 + i;
      const double expected = 1.0 + (at < dtable.size() ? static_cast<double>(dtable[at]) : 0.0);
      CHECK(dpart[i] == Approx(expected).epsilon(1e-6));
    }
  }
  CHECK(sum == y);
}

TEST_CASE("a token outside the vocabulary is named with its row", "[hw]") {
  const std::int32_t bad = GENERATE(-1, 10);
  const std::vector<std::int32_t> ids{1, 2, bad};
  std::vector<float> table(10 * 2), y(3 * 2, 5.0F);
  const std::string expected = "token id " + std::to_string(bad) +
                               " at row 2 of the batch is outside the vocabulary [0, 10)";
  CHECK_THROWS_WITH(
      embedding_forward<float>({ids.data(), table.data(), y.data(), {3, 2}, {10, 0, 10}}),
      expected);
  CHECK(y == std::vector<float>(6, 5.0F));
  CHECK_THROWS_AS(
      embedding_backward<float>({ids.data(), y.data(), table.data(), {3, 2}, {10, 0, 10}}),
      parplan::InputError);
}

TEMPLATE_TEST_CASE("learned positions are added per sequence and summed back over sequences",
                   "[hw]", float, double) {
  using T = TestType;
  const DropoutSpec dropout = GENERATE(DropoutSpec{}, DropoutSpec{0.25, 77, 40, 0});
  const std::int64_t batch = 3, sequence = 4, cols = 9, offset = 2, table_rows = 8;
  const MatrixShape shape{batch * sequence, cols};
  const auto x = draws<T>(shape.count(), "x");
  const auto dy = draws<T>(shape.count(), "dy");
  const auto table = draws<T>(table_rows * cols, "table");
  std::vector<double> expected, expected_dx;
  std::vector<double> expected_dtable(table.size());
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto at = static_cast<std::size_t>(r * cols + c);
      const auto in_table = static_cast<std::size_t>((r % sequence + offset) * cols + c);
      const double factor = dropout_factor(dropout, r, c);
      expected.push_back((static_cast<double>(x[at]) + table[in_table]) * factor);
      expected_dx.push_back(dy[at] * factor);
      expected_dtable[in_table] += dy[at] * factor;
    }
  }
  const RowPositions positions{sequence, offset};
  auto y = x;
  position_forward<T>({y.data(), table.data(), y.data(), shape, table_rows, positions, dropout});
  CHECK(worst_error(y, expected) < 4);
  std::vector<T> dx(dy.size()), dtable(table.size(), T{9}), alone(table.size());
  position_backward<T>(
      {dy.data(), dx.data(), dtable.data(), shape, table_rows, positions, dropout});
  CHECK(worst_error(dx, expected_dx) < 4);
  CHECK(worst_error(dtable, expected_dtable) < 4);
  position_backward<T>(
      {dy.data(), nullptr, alone.data(), shape, table_rows, positions, dropout, true});
  CHECK(alone == dtable);
  CHECK_THROWS_AS(position_forward<T>({x.data(), table.data(), y.data(), shape, table_rows,
                                       RowPositions{sequence, 5}, dropout}),
                  parplan::InternalError);
}

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
  CHECK(worst_error(x, expected) < 4);
  args.direction = RotaryDirection::kBackward;
  rotary(args);
  CHECK(worst_error(x, before) < 4);
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
