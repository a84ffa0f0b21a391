#include "hw/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "hw/cpu/attention_vectors.hpp"
#include "hw/cpu/threads.hpp"
#include "hw/random.hpp"
#include "sim/core/error.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/kernel_checks.hpp"

namespace parplan::hw {
namespace {

using test::count_call;
using test::usable_levels;

using Values = std::vector<double>;

Values random_values(std::int64_t count, std::uint64_t key, double size = 1.0) {
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(size * (2.0 * keyed_uniform(key, i) - 1.0));  // exact as float
  }
  return values;
}

/// All operands of one attention, and the results of plain loops over its definition.
struct Attention {
  explicit Attention(const AttentionOptions& o, double size = 1.0)
      : options(o),
        q(random_values(query_count(), 1, size)),
        k(random_values(key_count(), 2, size)),
        v(random_values(key_count(), 3)),
        dout(random_values(query_count(), 4)) {}

  std::int64_t query_count() const {
    const AttentionShape& s = options.shape;
    return s.batch * s.queries * s.heads * s.head_dim;
  }
  std::int64_t key_count() const {
    const AttentionShape& s = options.shape;
    return s.batch * s.keys * s.kv_heads * s.head_dim;
  }
  std::int64_t row_count() const {
    const AttentionShape& s = options.shape;
    return s.batch * s.heads * s.queries;
  }

  void solve();

  AttentionOptions options;
  Values q, k, v, dout;
  Values out, lse, dq, dk, dv;
};

/// One row of probabilities, with and without dropout.
struct Row {
  Values p, kept;
  double lse = 0;
};

Row probabilities(const Attention& a, std::int64_t b, std::int64_t h, std::int64_t i) {
  const AttentionShape& s = a.options.shape;
  const AttentionDropout& drop = a.options.dropout;
  const std::int64_t kv = h / (s.heads / s.kv_heads);
  const double scale = a.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(s.head_dim)));
  const std::int64_t visible = a.options.causal ? std::min(s.keys, i + 1) : s.keys;
  const DropoutKey key = dropout_row_key(
      drop.key,
      static_cast<std::uint64_t>(
          ((drop.batch_offset + b) * drop.total_heads + drop.head_offset + h) * s.queries + i));
  Row row;
  double most = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < visible; ++j) {
    double score = 0;
    for (std::int64_t c = 0; c < s.head_dim; ++c) {
      score += a.q[static_cast<std::size_t>(((b * s.queries + i) * s.heads + h) * s.head_dim + c)] *
               a.k[static_cast<std::size_t>(((b * s.keys + j) * s.kv_heads + kv) * s.head_dim + c)];
    }
    row.p.push_back(scale * score);
    most = std::max(most, scale * score);
  }
  double sum = 0;
  for (double& p : row.p) sum += p = std::exp(p - most);
  row.lse = most + std::log(sum);
  for (std::int64_t j = 0; j < visible; ++j) {
    double& p = row.p[static_cast<std::size_t>(j)];
    p /= sum;
    const bool dropped =
        dropout_hash(key, static_cast<std::uint32_t>(j)) < dropout_threshold(drop.p);
    row.kept.push_back(dropped ? 0.0 : p / (1.0 - drop.p));
  }
  return row;
}

void Attention::solve() {
  const AttentionShape& s = options.shape;
  const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(s.head_dim)));
  out.assign(q.size(), 0);
  dq.assign(q.size(), 0);
  dk.assign(k.size(), 0);
  dv.assign(v.size(), 0);
  lse.clear();
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.queries; ++i) {
        const Row row = probabilities(*this, b, h, i);
        lse.push_back(row.lse);
        const auto qi = static_cast<std::size_t>(((b * s.queries + i) * s.heads + h) * s.head_dim);
        const auto d = static_cast<std::size_t>(s.head_dim);
        Values dp(row.p.size());
        double inner = 0;
        const auto key_at = [&](std::size_t j) {
          return ((static_cast<std::size_t>(b * s.keys) + j) *
                      static_cast<std::size_t>(s.kv_heads) +
                  static_cast<std::size_t>(h / (s.heads / s.kv_heads))) *
                 d;
        };
        for (std::size_t j = 0; j < row.p.size(); ++j) {
          for (std::size_t c = 0; c < d; ++c) {
            out[qi + c] += row.kept[j] * v[key_at(j) + c];
            dv[key_at(j) + c] += row.kept[j] * dout[qi + c];
            dp[j] += dout[qi + c] * v[key_at(j) + c];
          }
          inner += row.kept[j] * dp[j];
        }
        for (std::size_t j = 0; j < row.p.size(); ++j) {
          const double ds = scale * (row.kept[j] * dp[j] - row.p[j] * inner);
          for (std::size_t c = 0; c < d; ++c) {
            dq[qi + c] += ds * k[key_at(j) + c];
            dk[key_at(j) + c] += ds * q[qi + c];
          }
        }
      }
    }
  }
}

/// The same attention computed by the kernels in type T.
template <class T>
struct Kernels {
  explicit Kernels(const Attention& a)
      : options(a.options),
        q(a.q.begin(), a.q.end()),
        k(a.k.begin(), a.k.end()),
        v(a.v.begin(), a.v.end()),
        dout(a.dout.begin(), a.dout.end()),
        out(q.size(), nan()),
        lse(static_cast<std::size_t>(a.row_count()), nan()),
        dq(q.size(), nan()),
        dk(k.size(), nan()),
        dv(v.size(), nan()) {}

  static T nan() { return std::numeric_limits<T>::quiet_NaN(); }

  static constexpr std::ptrdiff_t kMark = 64;  // elements

  /// Scratch full of NaN, with a mark behind its end.
  void prepare(std::int64_t bytes) {
    memory.assign(static_cast<std::size_t>(bytes) / sizeof(T) + kMark, nan());
    scratch = {reinterpret_cast<std::byte*>(memory.data()), static_cast<std::size_t>(bytes)};
  }
  bool scratch_intact() const {
    return std::all_of(memory.end() - kMark, memory.end(), [](T x) { return std::isnan(x); });
  }

  AttentionForward<T> forward_args() {
    return {options,         {q.data(), 0}, {k.data(), 0}, {v.data(), 0},
            {out.data(), 0}, lse.data(),    scratch};
  }
  AttentionBackward<T> backward_args() {
    return {options,
            {q.data(), 0},
            {k.data(), 0},
            {v.data(), 0},
            {out.data(), 0},
            lse.data(),
            {dout.data(), 0},
            {dq.data(), 0},
            {dk.data(), 0},
            {dv.data(), 0},
            false,
            false,
            false,
            scratch};
  }
  void forward(const KernelContext& context = {}, Isa isa = host_isa(), int team = 1) {
    prepare(attention_forward_scratch_bytes<T>(options.shape) * team);
    attention_forward(context, forward_args(), isa);
  }
  void backward(const KernelContext& context = {}, Isa isa = host_isa(), int team = 1) {
    prepare(attention_backward_scratch_bytes<T>(options.shape) * team);
    attention_backward(context, backward_args(), isa);
  }

  AttentionOptions options;
  std::vector<T> q, k, v, dout, out, lse, dq, dk, dv, memory;
  std::span<std::byte> scratch;
};

/// Largest difference, over the largest exact value or 1; infinite if a value is not finite.
template <class T>
double difference(const std::vector<T>& got, const Values& exact) {
  if (got.size() != exact.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  double size = 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - exact[i]));
    size = std::max(size, std::fabs(exact[i]));
  }
  return worst / size;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Fractions of the tolerance used up, forward and backward.
template <class T>
double worst_error(const Attention& exact, Isa isa, double tolerance) {
  Kernels<T> kernels(exact);
  kernels.forward({}, isa);
  double worst = std::max(difference(kernels.out, exact.out), difference(kernels.lse, exact.lse));
  CHECK(kernels.scratch_intact());
  kernels.backward({}, isa);
  CHECK(kernels.scratch_intact());
  worst = std::max({worst, difference(kernels.dq, exact.dq), difference(kernels.dk, exact.dk),
                    difference(kernels.dv, exact.dv)});
  return worst / tolerance;
}

AttentionOptions options_for(const AttentionShape& shape, bool causal, double p) {
  AttentionOptions options;
  options.shape = shape;
  options.causal = causal;
  options.dropout = {p, 77, 3, 2, shape.heads + 5};
  return options;
}

// Below, at and beyond the tiles of 128, grouped heads, more queries than keys and fewer, head
// dimensions that no vector divides.
const std::vector<AttentionShape> kShapes{
    {1, 1, 1, 1, 1, 1},      {1, 1, 1, 3, 5, 2},    {2, 3, 1, 17, 33, 5},  {1, 4, 2, 65, 70, 16},
    {1, 2, 2, 130, 260, 20}, {1, 1, 1, 300, 7, 64}, {2, 2, 1, 1, 150, 24}, {1, 2, 1, 128, 128, 32}};

// double: 1e-13, some hundred roundings of 1.1e-16 of values up to 1.
// float: the scores, up to about 3, carry an error of 3 x 2^-24 x sqrt(head_dim) into the exponent,
// i.e. below 1.5e-6 relative in a probability; gradients add as many roundings again: 4e-6.
constexpr double kDoubleTolerance = 1e-13;
constexpr double kFloatTolerance = 4e-6;

}  // namespace

TEST_CASE("attention equals plain loops with stored probabilities", "[hw]") {
  for (const AttentionShape& shape : kShapes) {
    for (const bool causal : {false, true}) {
      for (const double p : {0.0, 0.3}) {
        Attention exact(options_for(shape, causal, p));
        exact.solve();
        for (const Isa isa : usable_levels()) {
          INFO(name_of(isa) << ": batch " << shape.batch << ", heads " << shape.heads << "/"
                            << shape.kv_heads << ", " << shape.queries << "x" << shape.keys
                            << ", head_dim " << shape.head_dim << ", causal " << causal << ", p "
                            << p);
          CHECK(worst_error<double>(exact, isa, kDoubleTolerance) <= 1.0);
          CHECK(worst_error<float>(exact, isa, kFloatTolerance) <= 1.0);
        }
      }
    }
  }
}

TEST_CASE("the gradients of attention agree with finite differences", "[hw]") {
  AttentionOptions options = options_for({1, 2, 1, 6, 9, 3}, true, 0.25);
  options.scale = 0.7;
  const Attention start(options);
  Kernels<double> at(start);
  at.forward();
  at.backward();
  // loss = sum dout x out; central differences with step 1e-5: error about 1e-10 + 1e-16 / 1e-5.
  const auto loss = [](Kernels<double>& kernels) {
    kernels.forward();
    double sum = 0;
    for (std::size_t i = 0; i < kernels.out.size(); ++i) sum += kernels.dout[i] * kernels.out[i];
    return sum;
  };
  const auto worst_of = [&](std::vector<double> Kernels<double>::*input,
                            const std::vector<double>& gradient) {
    double worst = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      Kernels<double> moved(start);
      (moved.*input)[i] += 1e-5;
      const double up = loss(moved);
      (moved.*input)[i] -= 2e-5;
      worst = std::max(worst, std::fabs((up - loss(moved)) / 2e-5 - gradient[i]));
    }
    return worst;
  };
  CHECK(worst_of(&Kernels<double>::q, at.dq) < 1e-9);
  CHECK(worst_of(&Kernels<double>::k, at.dk) < 1e-9);
  CHECK(worst_of(&Kernels<double>::v, at.dv) < 1e-9);
}

TEST_CASE("a shard of batch and heads computes the same bits as the whole", "[hw]") {
  const AttentionShape shape{2, 4, 2, 70, 140, 16};
  AttentionOptions options = options_for(shape, false, 0.2);
  options.dropout = {0.2, 99, 0, 0, 4};
  const Attention all(options);
  Kernels<float> whole(all);
  whole.forward();
  whole.backward();
  // Sample 1, heads 2 and 3, which share key/value head 1.
  AttentionOptions part_options = options;
  part_options.shape = {1, 2, 1, 70, 140, 16};
  part_options.dropout.batch_offset = 1;
  part_options.dropout.head_offset = 2;
  Kernels<float> part{Attention(part_options)};
  const auto shard = [&](const std::vector<float>& from, std::int64_t positions, std::int64_t heads,
                         std::int64_t first_head) {
    std::vector<float> to;
    const std::int64_t count = heads / 2;
    for (std::int64_t i = positions; i < 2 * positions; ++i) {
      const auto first = static_cast<std::size_t>((i * heads + first_head) * shape.head_dim);
      const auto length = static_cast<std::size_t>(count * shape.head_dim);
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(first),
                from.begin() + static_cast<std::ptrdiff_t>(first + length));
    }
    return to;
  };
  part.q = shard(whole.q, 70, 4, 2);
  part.k = shard(whole.k, 140, 2, 1);
  part.v = shard(whole.v, 140, 2, 1);
  part.dout = shard(whole.dout, 70, 4, 2);
  part.forward();
  part.backward();
  CHECK(same_bits(part.out, shard(whole.out, 70, 4, 2)));
  CHECK(same_bits(part.dq, shard(whole.dq, 70, 4, 2)));
  CHECK(same_bits(part.dk, shard(whole.dk, 140, 2, 1)));
  CHECK(same_bits(part.dv, shard(whole.dv, 140, 2, 1)));
  CHECK(same_bits(part.lse, {whole.lse.end() - 140, whole.lse.end()}));
}

TEST_CASE("gradients of attention are added to what is there if asked", "[hw]") {
  Attention exact(options_for({1, 2, 1, 150, 140, 12}, true, 0.1));
  exact.solve();
  for (int chosen = 0; chosen < 3; ++chosen) {
    Kernels<double> kernels(exact);
    kernels.forward();
    std::vector<double>* const results[] = {&kernels.dq, &kernels.dk, &kernels.dv};
    results[chosen]->assign(results[chosen]->size(), 100.0);
    kernels.prepare(attention_backward_scratch_bytes<double>(kernels.options.shape));
    AttentionBackward<double> args = kernels.backward_args();
    args.accumulate_dq = chosen == 0;
    args.accumulate_dk = chosen == 1;
    args.accumulate_dv = chosen == 2;
    attention_backward(KernelContext{}, args);
    for (double& value : *results[chosen]) value -= 100.0;
    // 100 has an ulp of 1.4e-14.
    CHECK(difference(kernels.dq, exact.dq) < 1e-12);
    CHECK(difference(kernels.dk, exact.dk) < 1e-12);
    CHECK(difference(kernels.dv, exact.dv) < 1e-12);
  }
}

TEST_CASE("attention reads and writes parts of a fused projection", "[hw]") {
  Attention exact(options_for({2, 2, 1, 20, 20, 6}, false, 0.0));
  exact.solve();
  Kernels<double> plain(exact);
  plain.forward();
  // [positions, q (12) | k (6) | v (6)], and gradients in the same form.
  const std::int64_t width = 24;
  std::vector<double> fused(40 * 24);
  std::vector<double> gradients(40 * 24, plain.nan());
  for (std::size_t i = 0; i < 40; ++i) {
    std::copy_n(plain.q.begin() + static_cast<std::ptrdiff_t>(12 * i), 12,
                fused.begin() + static_cast<std::ptrdiff_t>(24 * i));
    std::copy_n(plain.k.begin() + static_cast<std::ptrdiff_t>(6 * i), 6,
                fused.begin() + static_cast<std::ptrdiff_t>(24 * i + 12));
    std::copy_n(plain.v.begin() + static_cast<std::ptrdiff_t>(6 * i), 6,
                fused.begin() + static_cast<std::ptrdiff_t>(24 * i + 18));
  }
  AttentionForward<double> forward = plain.forward_args();
  forward.q = {fused.data(), width};
  forward.k = {fused.data() + 12, width};
  forward.v = {fused.data() + 18, width};
  attention_forward(KernelContext{}, forward);
  CHECK(difference(plain.out, exact.out) < kDoubleTolerance);
  plain.prepare(attention_backward_scratch_bytes<double>(exact.options.shape));
  AttentionBackward<double> backward = plain.backward_args();
  backward.q = forward.q;
  backward.k = forward.k;
  backward.v = forward.v;
  backward.dq = {gradients.data(), width};
  backward.dk = {gradients.data() + 12, width};
  backward.dv = {gradients.data() + 18, width};
  attention_backward(KernelContext{}, backward);
  Values expected;
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t c = 0; c < 12; ++c) expected.push_back(exact.dq[12 * i + c]);
    for (std::size_t c = 0; c < 6; ++c) expected.push_back(exact.dk[6 * i + c]);
    for (std::size_t c = 0; c < 6; ++c) expected.push_back(exact.dv[6 * i + c]);
  }
  CHECK(difference(gradients, expected) < kDoubleTolerance);
}

TEST_CASE("attention polls, and the poll changes nothing", "[hw]") {
  // Forward 4 x 8 x 256^2 x 64 = 134 MFLOP, backward 336 MFLOP: a poll each 100 MFLOP.
  const Attention inputs(options_for({1, 8, 8, 256, 256, 64}, false, 0.1));
  Kernels<float> plain(inputs);
  plain.forward();
  plain.backward();
  Kernels<float> polled(inputs);
  int calls = 0;
  const KernelContext context{{&count_call, &calls}};
  polled.forward(context);
  CHECK(calls == 1);
  calls = 0;
  polled.backward(context);
  CHECK(calls == 3);
  CHECK(same_bits(plain.out, polled.out));
  CHECK(same_bits(plain.dq, polled.dq));
  CHECK(same_bits(plain.dk, polled.dk));
  CHECK(same_bits(plain.dv, polled.dv));
}

#if !defined(__SANITIZE_THREAD__)  // the OpenMP runtime is not instrumented: false reports
TEST_CASE("the number of threads changes no bit of attention", "[hw]") {
  const Attention inputs(options_for({3, 4, 2, 40, 50, 16}, true, 0.1));
  Kernels<float> one(inputs);
  one.forward();
  one.backward();
  Kernels<float> three(inputs);
  set_threads(3);
  three.forward({}, host_isa(), 3);
  three.backward({}, host_isa(), 3);
  set_threads(1);
  CHECK(same_bits(one.out, three.out));
  CHECK(same_bits(one.lse, three.lse));
  CHECK(same_bits(one.dq, three.dq));
  CHECK(same_bits(one.dk, three.dk));
  CHECK(same_bits(one.dv, three.dv));
}
#endif

TEST_CASE("attention keeps huge scores finite", "[hw]") {
  // Scores up to 1e4: exp of them would overflow, the largest decides alone.
  Attention exact(options_for({1, 1, 1, 20, 200, 4}, false, 0.0), 100.0);
  exact.options.scale = 1.0;
  exact.solve();
  CHECK(worst_error<double>(exact, host_isa(), 1e-10) <= 1.0);
  Kernels<float> kernels(exact);
  kernels.forward();
  kernels.backward();
  // The error of a score is 1e4 x 2^-24 x 2 = 1.2e-3, and so is the relative one of a probability.
  CHECK(difference(kernels.out, exact.out) < 2e-3);
  CHECK(difference(kernels.dq, exact.dq) < 2e-3);
}

TEST_CASE("a NaN in one query spoils that query alone, and is not hidden", "[hw]") {
  const Attention inputs(options_for({1, 1, 1, 20, 30, 8}, false, 0.0));
  Kernels<float> kernels(inputs);
  kernels.q[5 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
  kernels.forward();
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(std::isnan(kernels.out[8 * i]) == (i == 5));
    CHECK(std::isnan(kernels.lse[i]) == (i == 5));
  }
}

TEST_CASE("attention whose promises are broken is refused", "[hw]") {
  const Attention inputs(options_for({1, 2, 1, 3, 4, 5}, false, 0.0));
  Kernels<float> kernels(inputs);
  kernels.prepare(attention_forward_scratch_bytes<float>(inputs.options.shape) - 1);
  CHECK_THROWS_AS(attention_forward(KernelContext{}, kernels.forward_args()), InternalError);
  kernels.prepare(attention_backward_scratch_bytes<float>(inputs.options.shape) - 1);
  CHECK_THROWS_AS(attention_backward(KernelContext{}, kernels.backward_args()), InternalError);
  kernels.prepare(attention_forward_scratch_bytes<float>(inputs.options.shape));
  AttentionForward<float> args = kernels.forward_args();
  args.options.shape.kv_heads = 3;
  CHECK_THROWS_AS(attention_forward(KernelContext{}, args), InternalError);
  args = kernels.forward_args();
  args.options.dropout.p = 1.0;
  CHECK_THROWS_AS(attention_forward(KernelContext{}, args), InternalError);
  args = kernels.forward_args();
  args.options.dropout = {0.1, 1, 0, 1, 2};  // heads 1 and 2 of 2
  CHECK_THROWS_AS(attention_forward(KernelContext{}, args), InternalError);
}

TEST_CASE("attention without queries has keys without gradient", "[hw]") {
  Kernels<float> kernels{Attention(options_for({1, 1, 1, 0, 3, 2}, false, 0.0))};
  kernels.forward();
  kernels.backward();
  CHECK(kernels.dk == std::vector<float>(6, 0.0F));
  CHECK(kernels.dv == std::vector<float>(6, 0.0F));
}

TEST_CASE("powers of two on lanes are within two units in the last place", "[hw]") {
  const auto worst_ulp = [](auto zero, double lowest) {
    using T = decltype(zero);
    using V = VectorType<T, Isa::kBase>;
    double worst = 0;
    for (int i = 0; i < 100000; ++i) {
      const T x = static_cast<T>(1.0 + (lowest - 1.0) * i / 100000.0);
      const V result = exp2_lanes<T, Isa::kBase>(V{} + x);
      const double exact = std::exp2(static_cast<double>(x));
      worst = std::max(worst, std::fabs(static_cast<double>(result[0]) - exact) / exact /
                                  static_cast<double>(std::numeric_limits<T>::epsilon()));
    }
    return worst;
  };
  CHECK(worst_ulp(0.0F, -126.0) < 2.0);
  CHECK(worst_ulp(0.0, -1022.0) < 2.0);
  using V = VectorType<float, Isa::kBase>;
  CHECK(exp2_lanes<float, Isa::kBase>(V{} - 126.5F)[0] == 0.0F);
  CHECK(exp2_lanes<float, Isa::kBase>(V{} - std::numeric_limits<float>::infinity())[0] == 0.0F);
  CHECK(exp2_lanes<float, Isa::kBase>(V{})[0] == 1.0F);
}

}  // namespace parplan::hw
