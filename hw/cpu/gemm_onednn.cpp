#include "hw/cpu/gemm_onednn.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

/// All that the generated code depends on.
struct MatmulKey {
  std::array<std::int64_t, 6> sizes{};  // m, n, k and the strides of a, b, c
  std::array<bool, 4> flags{};          // a transposed, b transposed, bias, accumulate
  int thread_count = 1;
  bool operator==(const MatmulKey&) const = default;
};

MatmulKey key_of(const Gemm<float>& args, int thread_count) {
  return {{args.m, args.n, args.k, args.a.stride, args.b.stride, args.c_stride},
          {args.a.transposed, args.b.transposed, args.bias != nullptr, args.accumulate},
          thread_count};
}

struct MatmulKeyHash {
  std::size_t operator()(const MatmulKey& key) const {
    std::uint64_t hash = static_cast<std::uint64_t>(key.thread_count);
    for (const bool flag : key.flags) {
      hash = 2 * hash + static_cast<std::uint64_t>(flag);
    }
    for (const std::int64_t size : key.sizes) {
      hash = (hash ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash);
  }
};

dnnl::memory::desc describe(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                            bool transposed) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, cols}, dnnl::memory::data_type::f32, strides};
}

/// A matmul primitive with its memory objects, whose addresses change from call to call.
class Matmul {
 public:
  Matmul(const MatmulKey& key, const dnnl::engine& engine) {
    const auto [m, n, k, a_stride, b_stride, c_stride] = key.sizes;
    const auto [a_transposed, b_transposed, has_bias, accumulate] = key.flags;
    const dnnl::memory::desc a = describe(m, k, a_stride, a_transposed);
    const dnnl::memory::desc b = describe(k, n, b_stride, b_transposed);
    const dnnl::memory::desc c = describe(m, n, c_stride, false);
    const dnnl::memory::desc bias = describe(1, n, n, false);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc operation =
        has_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc selected(operation, attributes, engine);
    primitive_ = dnnl::matmul(selected);
    scratch_bytes_ = selected.scratchpad_desc().get_size();
    add(DNNL_ARG_SRC, a, engine);
    add(DNNL_ARG_WEIGHTS, b, engine);
    add(DNNL_ARG_DST, c, engine);
    add(DNNL_ARG_SCRATCHPAD, selected.scratchpad_desc(), engine);
    if (has_bias) {
      add(DNNL_ARG_BIAS, bias, engine);
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const Gemm<float>& args, std::byte* scratch, const dnnl::stream& stream) {
    // oneDNN takes no pointers to const, but writes only to the destination and the scratchpad.
    memories_[0].set_data_handle(const_cast<float*>(args.a.data));
    memories_[1].set_data_handle(const_cast<float*>(args.b.data));
    memories_[2].set_data_handle(args.c);
    memories_[3].set_data_handle(scratch);
    if (args.bias != nullptr) {
      memories_[4].set_data_handle(const_cast<float*>(args.bias));
    }
    // The C call: the C++ one copies a map of the arguments each time.
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()),
                               arguments_.data()),
        "could not execute");
  }

 private:
  void add(int argument, const dnnl::memory::desc& desc, const dnnl::engine& engine) {
    memories_.emplace_back(desc, engine, nullptr);
    arguments_.push_back({argument, memories_.back().get()});
  }

  dnnl::matmul primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::size_t scratch_bytes_ = 0;
};

/// oneDNN's objects of one thread: the memory objects in Matmul must not be shared.
class OneDnn {
 public:
  OneDnn() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  void multiply(const Gemm<float>& args, int thread_count) {
    Matmul& matmul = find(key_of(args, thread_count));
    if (scratch_.size() < matmul.scratch_bytes() + kAlignment) {
      scratch_.resize(matmul.scratch_bytes() + kAlignment);
    }
    void* start = scratch_.data();
    std::size_t space = scratch_.size();
    std::align(kAlignment, matmul.scratch_bytes(), start, space);
    matmul.run(args, static_cast<std::byte*>(start), stream_);
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  // A plan has some tens of shapes; only sweeps over sizes (profiling) come near.
  static constexpr std::size_t kMostShapes = 512;

  Matmul& find(const MatmulKey& key) {
    const auto found = shapes_.find(key);
    if (found != shapes_.end()) {
      return *found->second;
    }
    if (shapes_.size() >= kMostShapes) {
      shapes_.clear();
    }
    return *shapes_.emplace(key, std::make_unique<Matmul>(key, engine_)).first->second;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unordered_map<MatmulKey, std::unique_ptr<Matmul>, MatmulKeyHash> shapes_;
  std::vector<std::byte> scratch_;
};

}  // namespace

void gemm_onednn(const Gemm<float>& args, int thread_count) {
  try {
    thread_local OneDnn library;
    library.multiply(args, thread_count);
  } catch (const dnnl::error& e) {
    throw HwError("oneDNN product " + std::to_string(args.m) + "x" + std::to_string(args.n) + "x" +
                  std::to_string(args.k) + ": " + e.what() + " (status " +
                  std::to_string(static_cast<int>(e.status)) + ")");
  }
}

}  // namespace parplan::hw
