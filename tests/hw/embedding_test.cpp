#include "hw/cpu/embedding.hpp"

#include <cmath>
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
