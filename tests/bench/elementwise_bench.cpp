// Memory-bound kernels of the CPU device on the shapes of the seed transformer (4096 positions,
// width 512, feed-forward 2048, vocabulary 10000, 43.9 M parameters). For each kernel:
// `ns_per_element`, and `vs_memcpy`, its time over that of a memcpy that moves as many bytes (reads
// and writes together). Kernel and memcpy alternate, both are minima, so that other load on the
// machine hits both. The reported time is the kernel's mean.
//   build/release/bin/elementwise_bench --benchmark_filter=float

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "hw/cpu/adam.hpp"
#include "hw/cpu/elementwise.hpp"
#include "hw/cpu/embedding.hpp"
#include "hw/cpu/loss.hpp"
#include "hw/cpu/norm.hpp"
#include "hw/cpu/rotary.hpp"

namespace parplan::hw {
namespace {

template <class F>
double seconds_of(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Runs `kernel` over `count` elements of T, each costing `accesses` element reads and writes.
template <class T, class Kernel>
void measure(benchmark::State& state, std::int64_t count, double accesses, Kernel kernel) {
  const auto bytes =
      static_cast<std::size_t>(static_cast<double>(count) * accesses * sizeof(T) / 2);
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 1e9, best_copy = 1e9;
  kernel();
  for (auto _ : state) {
    const double seconds = seconds_of(kernel);
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
    best_copy = std::min(best_copy, seconds_of([&] {
                           std::memcpy(to.data(), from.data(), bytes);
                           benchmark::ClobberMemory();
                         }));
  }
  state.counters["ns_per_element"] = best * 1e9 / static_cast<double>(count);
  state.counters["vs_memcpy"] = best / best_copy;
}

/// Some numbers around zero, cheap to make.
template <class T>
std::vector<T> values(std::int64_t count, double scale = 1.0) {
  std::vector<T> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(scale * (4.0 * keyed_uniform(1, i) - 2.0));
  }
  return x;
}

constexpr std::int64_t kRows = 4096;

template <class T>
void activation(benchmark::State& state, Activation kind, double p, bool backward) {
  const MatrixShape shape{kRows, 2048};
  const auto x = values<T>(shape.count());
  const auto dy = values<T>(shape.count());
  std::vector<T> out(x.size());
  const DropoutSpec dropout{p, 1, 0, 0};
  if (backward) {
    measure<T>(state, shape.count(), 3, [&] {
      activation_backward<T>({x.data(), dy.data(), out.data(), shape, kind, dropout});
    });
  } else {
    measure<T>(state, shape.count(), 2, [&] {
      activation_forward<T>({x.data(), out.data(), shape, kind, dropout});
    });
  }
}

template <class T>
void swiglu(benchmark::State& state, bool backward) {
  const MatrixShape shape{kRows, 2048};
  const auto gate = values<T>(shape.count());
  const auto up = values<T>(shape.count());
  const auto dy = values<T>(shape.count());
  std::vector<T> a(gate.size()), b(gate.size());
  if (backward) {
    measure<T>(state, shape.count(), 5, [&] {
      swiglu_backward<T>(
          {gate.data(), up.data(), dy.data(), a.data(), b.data(), shape, shape.cols});
    });
  } else {
    measure<T>(state, shape.count(), 3, [&] {
      swiglu_forward<T>({gate.data(), up.data(), a.data(), shape, shape.cols});
    });
  }
}

template <class T>
void residual(benchmark::State& state, double p, bool backward) {
  const MatrixShape shape{kRows, 512};
  const auto a = values<T>(shape.count());
  const auto b = values<T>(shape.count());
  std::vector<T> y(a.size()), z(a.size());
  const DropoutSpec dropout{p, 1, 0, 0};
  if (backward) {
    measure<T>(state, shape.count(), 3, [&] {
      residual_backward<T>({a.data(), y.data(), z.data(), shape, dropout});
    });
  } else {
    measure<T>(state, shape.count(), 3, [&] {
      residual_forward<T>({a.data(), b.data(), y.data(), shape, dropout});
    });
  }
}

template <class T>
void add(benchmark::State& state) {
  const auto x = values<T>(kRows * 512);
  std::vector<T> y(x.size());
  measure<T>(state, kRows * 512, 3, [&] { add_elements(y.data(), x.data(), kRows * 512); });
}

template <class T>
void norm(benchmark::State& state, bool layer, bool backward) {
  const MatrixShape shape{kRows, 512};
  const auto x = values<T>(shape.count());
  const auto dy = values<T>(shape.count());
  const auto gamma = values<T>(shape.cols);
  std::vector<T> out(x.size()), mean(kRows), rstd(kRows), dgamma(512), dbeta(512), scratch(1024);
  const auto forward = [&] {
    if (layer) {
      layer_norm_forward<T>({x.data(), gamma.data(), gamma.data(), out.data(), mean.data(),
                             rstd.data(), shape, 1e-5});
    } else {
      rms_norm_forward<T>({x.data(), gamma.data(), out.data(), rstd.data(), shape, 1e-6});
    }
  };
  forward();
  if (!backward) {
    measure<T>(state, shape.count(), 2, forward);
    return;
  }
  measure<T>(state, shape.count(), 3, [&] {
    if (layer) {
      layer_norm_backward<T>({x.data(), dy.data(), gamma.data(), mean.data(), rstd.data(),
                              out.data(), dgamma.data(), dbeta.data(), scratch.data(), shape});
    } else {
      rms_norm_backward<T>({x.data(), dy.data(), gamma.data(), rstd.data(), out.data(),
                            dgamma.data(), scratch.data(), shape});
    }
  });
}

template <class T>
void embedding(benchmark::State& state, bool backward) {
  const MatrixShape shape{kRows, 512};
  const VocabShard shard{10000, 0, 10000};
  std::vector<std::int32_t> ids;
  for (std::uint64_t r = 0; r < kRows; ++r) {
    ids.push_back(static_cast<std::int32_t>(keyed_u64(3, r) % 10000));
  }
  std::vector<T> table(10000 * 512), y(static_cast<std::size_t>(shape.count()));
  if (backward) {
    measure<T>(state, shape.count(), 3, [&] {
      embedding_backward<T>({ids.data(), y.data(), table.data(), shape, shard, true});
    });
  } else {
    measure<T>(state, shape.count(), 2, [&] {
      embedding_forward<T>({ids.data(), table.data(), y.data(), shape, shard});
    });
  }
}

template <class T>
void rotary_heads(benchmark::State& state, std::int64_t sequence) {
  const auto frequencies = rotary_frequencies(64, 10000.0);
  auto x = values<T>(kRows * 512);
  measure<T>(state, kRows * 512, 2, [&] {
    rotary<T>({x.data(), kRows, 8, 64, 512, {sequence, 0}, frequencies.data()});
  });
}

template <class T>
void cross_entropy(benchmark::State& state, bool backward) {
  const MatrixShape shape{kRows, 10000};
  const ClassShard shard{10000, 0};
  auto logits = values<T>(shape.count());
  std::vector<std::int32_t> targets;
  for (std::uint64_t r = 0; r < kRows; ++r) {
    targets.push_back(static_cast<std::int32_t>(keyed_u64(3, r) % 10000));
  }
  std::vector<T> stats(3 * kRows), lse(kRows, T(9));
  if (backward) {
    measure<T>(state, shape.count(), 2, [&] {
      cross_entropy_backward<T>(
          {logits.data(), targets.data(), lse.data(), shape, shard, 1.0 / kRows});
    });
  } else {
    measure<T>(state, shape.count(), 1, [&] {
      cross_entropy_stats<T>({logits.data(), targets.data(), stats.data(), shape, shard});
    });
  }
}

template <class T>
void adam(benchmark::State& state) {
  const std::int64_t count = state.range(0);
  auto p = values<T>(count);
  const auto g = values<T>(count, 1e-3);
  std::vector<T> m(p.size()), v(p.size());
  measure<T>(state, count, 7, [&] {
    adam_step<T>({p.data(), g.data(), m.data(), v.data(), count}, {}, 1);
  });
}

template <class T>
void initialise(benchmark::State& state) {
  std::vector<T> x(1 << 20);
  measure<T>(state, 1 << 20, 2, [&] {
    fill_parameter(x.data(), {1024, 1024, 0, 0, 1024, 1024}, {InitKind::kNormal, 0.02}, 1);
  });
}

template <class T>
void add_benchmarks(const std::string& type) {
  const auto add_one = [&](const std::string& name, auto run) {
    return benchmark::RegisterBenchmark((name + "/" + type).c_str(), run)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  using State = benchmark::State;
  const struct {
    const char* name;
    Activation kind;
  } kinds[] = {{"relu", Activation::kRelu},
               {"gelu_erf", Activation::kGeluErf},
               {"gelu_tanh", Activation::kGeluTanh},
               {"silu", Activation::kSilu}};
  for (const auto& each : kinds) {
    for (const double p : {0.0, 0.1}) {
      const std::string name = std::string(each.name) + (p > 0 ? "_dropout" : "");
      const Activation kind = each.kind;
      add_one(name + "_forward", [=](State& s) { activation<T>(s, kind, p, false); });
      add_one(name + "_backward", [=](State& s) { activation<T>(s, kind, p, true); });
    }
  }
  for (const bool backward : {false, true}) {
    const std::string way = backward ? "_backward" : "_forward";
    add_one("swiglu" + way, [=](State& s) { swiglu<T>(s, backward); });
    add_one("residual" + way, [=](State& s) { residual<T>(s, 0.0, backward); });
    add_one("residual_dropout" + way, [=](State& s) { residual<T>(s, 0.1, backward); });
    add_one("layer_norm" + way, [=](State& s) { norm<T>(s, true, backward); });
    add_one("rms_norm" + way, [=](State& s) { norm<T>(s, false, backward); });
    add_one("embedding" + way, [=](State& s) { embedding<T>(s, backward); });
    add_one(backward ? "cross_entropy_backward" : "cross_entropy_stats",
            [=](State& s) { cross_entropy<T>(s, backward); });
  }
  add_one("add", [](State& s) { add<T>(s); });
  add_one("rotary_32x128", [](State& s) { rotary_heads<T>(s, 128); });
  add_one("rotary_1x4096", [](State& s) { rotary_heads<T>(s, kRows); });
  add_one("adam", [](State& s) { adam<T>(s); })->Arg(16'000)->Arg(204'000)->Arg(43'900'000);
  add_one("initialise_normal", [](State& s) { initialise<T>(s); });
}

}  // namespace
}  // namespace parplan::hw

int main(int argc, char** argv) {
  parplan::hw::add_benchmarks<float>("float");
  parplan::hw::add_benchmarks<double>("double");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
