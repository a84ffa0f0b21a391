// The CPU's matrix products and attention. GFLOP/s are counters; times are CPU times of one thread.
//   kernels_bench --benchmark_filter=linear        the products of the transformer and of the MLP
//   kernels_bench --benchmark_filter=attention
#include <benchmark/benchmark.h>

#include <oneapi/dnnl/dnnl.h>
#include <cstdint>
#include <string>
#include <vector>

#include "hw/cpu/attention.hpp"
#include "hw/cpu/gemm.hpp"
#include "hw/cpu/linear.hpp"
#include "hw/cpu/threads.hpp"
#include "hw/random.hpp"
#include "tests/hw/kernel_checks.hpp"

namespace {

using namespace parplan::hw;
using test::random_values;

void report_flop(benchmark::State& state, double flop) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flop * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

/// Touches nothing, but makes a product be cut into blocks.
void no_poll(void*) noexcept {}

enum class Pass { kForward, kInput, kWeight };

template <class T>
struct Layer {
  explicit Layer(const LinearShape& s)
      : shape(s),
        x(random_values<T>(s.rows * s.in, 1)),
        w(random_values<T>(s.out * s.in, 2)),
        bias(random_values<T>(s.out, 3)),
        dy(random_values<T>(s.rows * s.out, 4)),
        y(dy.size()),
        dx(x.size()),
        dw(w.size()),
        db(bias.size()) {}

  void run(Pass pass, const KernelContext& context) {
    switch (pass) {
      case Pass::kForward:
        return linear_forward(context,
                              LinearForward<T>{shape, x.data(), w.data(), bias.data(), y.data()});
      case Pass::kInput:
        return linear_backward_input(
            context, LinearBackwardInput<T>{shape, dy.data(), w.data(), dx.data(), false});
      case Pass::kWeight:
        return linear_backward_weight(
            context,
            LinearBackwardWeight<T>{shape, dy.data(), x.data(), dw.data(), db.data(), false});
    }
  }

  LinearShape shape;
  std::vector<T> x, w, bias, dy, y, dx, dw, db;
};

/// The bare product of a pass.
void run_sgemm(Layer<float>& l, Pass pass) {
  const auto [rows, in, out] = l.shape;
  switch (pass) {
    case Pass::kForward:
      dnnl_sgemm('N', 'T', rows, out, in, 1, l.x.data(), in, l.w.data(), in, 0, l.y.data(), out);
      return;
    case Pass::kInput:
      dnnl_sgemm('N', 'N', rows, in, out, 1, l.dy.data(), out, l.w.data(), in, 0, l.dx.data(), in);
      return;
    case Pass::kWeight:
      dnnl_sgemm('T', 'N', out, in, rows, 1, l.dy.data(), out, l.x.data(), in, 0, l.dw.data(), in);
      return;
  }
}

enum class Way { kUncut, kPolled, kSgemm };

template <class T>
void run_linear(benchmark::State& state, const LinearShape& shape, Pass pass, Way way) {
  Layer<T> layer(shape);
  KernelContext context;
  if (way == Way::kPolled) context.poll.call = &no_poll;
  for (auto _ : state) {
    if constexpr (std::is_same_v<T, float>) {
      if (way == Way::kSgemm) {
        apply_thread_count();
        run_sgemm(layer, pass);
        continue;
      }
    }
    layer.run(pass, context);
  }
  report_flop(state, 2.0 * static_cast<double>(shape.rows * shape.in * shape.out));
}

struct AttentionBuffers {
  explicit AttentionBuffers(const AttentionOptions& o) : options(o) {
    const AttentionShape& s = o.shape;
    const std::int64_t queries = s.batch * s.queries * s.heads * s.head_dim;
    const std::int64_t keys = s.batch * s.keys * s.kv_heads * s.head_dim;
    q = random_values<float>(queries, 1);
    k = random_values<float>(keys, 2);
    v = random_values<float>(keys, 3);
    dout = random_values<float>(queries, 4);
    out.resize(q.size());
    dq.resize(q.size());
    dk.resize(k.size());
    dv.resize(k.size());
    lse.resize(static_cast<std::size_t>(s.batch * s.heads * s.queries));
    scratch.resize(static_cast<std::size_t>(attention_backward_scratch_bytes<float>(s)));
  }
  void forward() {
    attention_forward(KernelContext{}, AttentionForward<float>{options,
                                                               {q.data(), 0},
                                                               {k.data(), 0},
                                                               {v.data(), 0},
                                                               {out.data(), 0},
                                                               lse.data(),
                                                               scratch});
  }
  void backward() {
    attention_backward(KernelContext{}, AttentionBackward<float>{options,
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
                                                                 scratch});
  }
  AttentionOptions options;
  std::vector<float> q, k, v, dout, out, dq, dk, dv, lse;
  std::vector<std::byte> scratch;
};

void run_attention(benchmark::State& state, const AttentionOptions& options, bool backward) {
  AttentionBuffers buffers(options);
  buffers.forward();
  for (auto _ : state) {
    backward ? buffers.backward() : buffers.forward();
  }
  const AttentionShape& s = options.shape;
  report_flop(state, (backward ? 10.0 : 4.0) * static_cast<double>(s.batch * s.heads * s.queries) *
                         static_cast<double>(s.keys * s.head_dim) * (options.causal ? 0.5 : 1.0));
}

std::string text(const LinearShape& s) {
  return std::to_string(s.rows) + "x" + std::to_string(s.in) + "x" + std::to_string(s.out);
}

void register_linear() {
  const LinearShape shapes[] = {{4096, 512, 512},   {4096, 512, 2048}, {4096, 2048, 512},
                                {4096, 512, 10000}, {64, 784, 256},    {64, 256, 10}};
  const std::pair<Pass, const char*> passes[] = {{Pass::kForward, "forward"},
                                                 {Pass::kInput, "backward_input"},
                                                 {Pass::kWeight, "backward_weight"}};
  const std::pair<Way, const char*> ways[] = {
      {Way::kUncut, "uncut"}, {Way::kPolled, "polled"}, {Way::kSgemm, "sgemm"}};
  for (const LinearShape& shape : shapes) {
    for (const auto& [pass, pass_name] : passes) {
      for (const auto& [way, way_name] : ways) {
        benchmark::RegisterBenchmark(
            ("linear/" + text(shape) + "/" + pass_name + "/" + way_name).c_str(),
            [shape, pass = pass, way = way](benchmark::State& s) {
              run_linear<float>(s, shape, pass, way);
            });
      }
    }
  }
  for (const auto& [pass, pass_name] : passes) {
    benchmark::RegisterBenchmark(("linear_double/1024x512x512/" + std::string(pass_name)).c_str(),
                                 [pass = pass](benchmark::State& s) {
                                   run_linear<double>(s, {1024, 512, 512}, pass, Way::kUncut);
                                 });
  }
}

void register_attention() {
  AttentionOptions options;
  options.shape = {32, 8, 8, 128, 128, 64};
  const auto add = [](const std::string& name, const AttentionOptions& o) {
    for (const bool backward : {false, true}) {
      benchmark::RegisterBenchmark(
          ("attention/" + name + (backward ? "/backward" : "/forward")).c_str(),
          [o, backward](benchmark::State& s) { run_attention(s, o, backward); })
          ->Unit(benchmark::kMillisecond);
    }
  };
  add("32x8x128x64", options);
  options.dropout = {0.1, 1, 0, 0, 8};
  add("32x8x128x64_dropout", options);
  options.dropout = {};
  options.causal = true;
  options.shape = {1, 8, 8, 2048, 2048, 64};
  add("1x8x2048x64_causal", options);
}

}  // namespace

int main(int argc, char** argv) {
  register_linear();
  register_attention();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
