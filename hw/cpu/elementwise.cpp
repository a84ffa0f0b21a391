#include "hw/cpu/elementwise.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "hw/cpu/dropout_mask.hpp"
#include "hw/cpu/vector_math.hpp"

// Loops carry `omp simd` because an output may be its own input: the compiler's overlap test would
// send exactly that case down the scalar path. Column indices inside a block are 32 bits wide, like
// the hash they feed.

namespace parplan::hw {
namespace {

struct Relu {
  template <class T>
  static PARPLAN_ALWAYS_INLINE T value(T x) {
    return x < T{0} ? T{0} : x;  // NaN passes
  }
  /// From the output.
  template <class T>
  static PARPLAN_ALWAYS_INLINE T slope(T y) {
    return y > T{0} ? T{1} : T{0};
  }
};

struct GeluErf {
  template <class T>
  static PARPLAN_ALWAYS_INLINE T value(T x) {
    return x * vector_normal_cdf(x, vector_exp(T(-0.5) * x * x));
  }
  template <class T>
  static PARPLAN_ALWAYS_INLINE T slope(T x) {
    constexpr T kInverseSqrtTwoPi = static_cast<T>(0.39894228040143267794);
    const T gauss = vector_exp(T(-0.5) * x * x);
    return vector_normal_cdf(x, gauss) + x * gauss * kInverseSqrtTwoPi;
  }
};

/// 1 + tanh(u) = 2 sigmoid(2u): no tanh, and no cancellation where tanh(u) is near -1.
struct GeluTanh {
  static constexpr double kTwiceSqrtTwoOverPi = 1.59576912160573071176;
  static constexpr double kCubic = 0.044715;
  template <class T>
  static PARPLAN_ALWAYS_INLINE T gate(T x) {
    return vector_sigmoid(static_cast<T>(kTwiceSqrtTwoOverPi) * x *
                          (T{1} + static_cast<T>(kCubic) * x * x));
  }
  template <class T>
  static PARPLAN_ALWAYS_INLINE T value(T x) {
    return x * gate(x);
  }
  template <class T>
  static PARPLAN_ALWAYS_INLINE T slope(T x) {
    const T s = gate(x);
    const T inner =
        static_cast<T>(kTwiceSqrtTwoOverPi) * (T{1} + static_cast<T>(3 * kCubic) * x * x);
    return s + x * s * (T{1} - s) * inner;
  }
};

struct Silu {
  template <class T>
  static PARPLAN_ALWAYS_INLINE T value(T x) {
    return x * vector_sigmoid(x);
  }
  template <class T>
  static PARPLAN_ALWAYS_INLINE T slope(T x) {
    const T s = vector_sigmoid(x);
    return s * (T{1} + x * (T{1} - s));
  }
};

template <bool kAccumulate, class T>
PARPLAN_ALWAYS_INLINE void put(T& out, T value) {
  out = kAccumulate ? out + value : value;
}

template <class Act, class T>
PARPLAN_ALWAYS_INLINE void activate(const ActivationForward<T>& args, const DropoutMask<T>& mask,
                                    const Block& block) {
  const std::int64_t first = block.row * args.shape.cols + block.col;
  const T* x = args.x + first;
  T* y = args.y + first;
  if (!mask.active()) {
    const auto count = static_cast<std::int32_t>(block.rows * block.cols);
#pragma omp simd
    for (std::int32_t i = 0; i < count; ++i) {
      y[i] = Act::value(x[i]);
    }
    return;
  }
  const auto cols = static_cast<std::int32_t>(block.cols);
  for (std::int64_t r = 0; r < block.rows; ++r, x += cols, y += cols) {
    const auto row = mask.row(block.row + r, block.col);
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      y[c] = row.apply(Act::value(x[c]), c);
    }
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void activation_forward_block(const ActivationForward<T>& args,
                                                    const DropoutMask<T>& mask,
                                                    const Block& block) {
  switch (args.kind) {
    case Activation::kRelu:
      return activate<Relu>(args, mask, block);
    case Activation::kGeluErf:
      return activate<GeluErf>(args, mask, block);
    case Activation::kGeluTanh:
      return activate<GeluTanh>(args, mask, block);
    case Activation::kSilu:
      return activate<Silu>(args, mask, block);
  }
}

template <class Act, bool kAccumulate, class T>
PARPLAN_ALWAYS_INLINE void deactivate(const ActivationBackward<T>& args, const DropoutMask<T>& mask,
                                      const Block& block) {
  const std::int64_t first = block.row * args.shape.cols + block.col;
  const T* saved = args.saved + first;
  const T* dy = args.dy + first;
  T* dx = args.dx + first;
  // relu's output is zero wherever it was dropped, so its mask needs no second look.
  constexpr bool kMaskInOutput = std::is_same_v<Act, Relu>;
  if (kMaskInOutput || !mask.active()) {
    const T scale = mask.scale();
    const auto count = static_cast<std::int32_t>(block.rows * block.cols);
#pragma omp simd
    for (std::int32_t i = 0; i < count; ++i) {
      put<kAccumulate>(dx[i], kMaskInOutput ? (saved[i] > T{0} ? dy[i] * scale : T{0})
                                            : dy[i] * Act::slope(saved[i]));
    }
    return;
  }
  const auto cols = static_cast<std::int32_t>(block.cols);
  for (std::int64_t r = 0; r < block.rows; ++r, saved += cols, dy += cols, dx += cols) {
    const auto row = mask.row(block.row + r, block.col);
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      put<kAccumulate>(dx[c], row.apply(dy[c] * Act::slope(saved[c]), c));
    }
  }
}

template <bool kAccumulate, class T>
PARPLAN_ALWAYS_INLINE void deactivate_kind(const ActivationBackward<T>& args,
                                           const DropoutMask<T>& mask, const Block& block) {
  switch (args.kind) {
    case Activation::kRelu:
      return deactivate<Relu, kAccumulate>(args, mask, block);
    case Activation::kGeluErf:
      return deactivate<GeluErf, kAccumulate>(args, mask, block);
    case Activation::kGeluTanh:
      return deactivate<GeluTanh, kAccumulate>(args, mask, block);
    case Activation::kSilu:
      return deactivate<Silu, kAccumulate>(args, mask, block);
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void activation_backward_block(const ActivationBackward<T>& args,
                                                     const DropoutMask<T>& mask,
                                                     const Block& block) {
  if (args.accumulate) {
    deactivate_kind<true>(args, mask, block);
  } else {
    deactivate_kind<false>(args, mask, block);
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void swiglu_forward_block(const SwigluForward<T>& args, const Block& block) {
  const auto cols = static_cast<std::int32_t>(block.cols);
  for (std::int64_t r = block.row; r < block.row + block.rows; ++r) {
    const T* gate = args.gate + r * args.stride + block.col;
    const T* up = args.up + r * args.stride + block.col;
    T* y = args.y + r * args.shape.cols + block.col;
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      y[c] = Silu::value(gate[c]) * up[c];
    }
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void swiglu_backward_block(const SwigluBackward<T>& args,
                                                 const Block& block) {
  const auto cols = static_cast<std::int32_t>(block.cols);
  for (std::int64_t r = block.row; r < block.row + block.rows; ++r) {
    const std::int64_t at = r * args.stride + block.col;
    const T* gate = args.gate + at;
    const T* up = args.up + at;
    const T* dy = args.dy + r * args.shape.cols + block.col;
    T* dgate = args.dgate + at;
    T* dup = args.dup + at;
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      const T s = vector_sigmoid(gate[c]);
      const T silu = gate[c] * s;
      const T slope = s + silu * (T{1} - s);
      const T gradient = dy[c];
      dgate[c] = gradient * up[c] * slope;
      dup[c] = gradient * silu;
    }
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void residual_forward_block(const ResidualForward<T>& args,
                                                  const DropoutMask<T>& mask, const Block& block) {
  const std::int64_t first = block.row * args.shape.cols + block.col;
  const T* a = args.a + first;
  const T* b = args.b + first;
  T* y = args.y + first;
  if (!mask.active()) {
    const auto count = static_cast<std::int32_t>(block.rows * block.cols);
#pragma omp simd
    for (std::int32_t i = 0; i < count; ++i) {
      y[i] = a[i] + b[i];
    }
    return;
  }
  const auto cols = static_cast<std::int32_t>(block.cols);
  for (std::int64_t r = 0; r < block.rows; ++r, a += cols, b += cols, y += cols) {
    const auto row = mask.row(block.row + r, block.col);
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      y[c] = a[c] + row.apply(b[c], c);
    }
  }
}

template <bool kAccumulate, class T>
PARPLAN_ALWAYS_INLINE void pass_through(T* out, const T* in, std::int32_t count) {
#pragma omp simd
  for (std::int32_t i = 0; i < count; ++i) {
    put<kAccumulate>(out[i], in[i]);
  }
}

template <bool kAccumulate, class T>
PARPLAN_ALWAYS_INLINE void pass_masked(const ResidualBackward<T>& args, const DropoutMask<T>& mask,
                                       const Block& block) {
  const std::int64_t first = block.row * args.shape.cols + block.col;
  const T* dy = args.dy + first;
  T* db = args.db + first;
  if (!mask.active()) {
    return pass_through<kAccumulate>(db, dy, static_cast<std::int32_t>(block.rows * block.cols));
  }
  const auto cols = static_cast<std::int32_t>(block.cols);
  for (std::int64_t r = 0; r < block.rows; ++r, dy += cols, db += cols) {
    const auto row = mask.row(block.row + r, block.col);
#pragma omp simd
    for (std::int32_t c = 0; c < cols; ++c) {
      put<kAccumulate>(db[c], row.apply(dy[c], c));
    }
  }
}

/// da first: db may be the same array as dy. The block is still in the cache when db reads it
/// again.
template <class T>
PARPLAN_VECTOR_CLONES void residual_backward_block(const ResidualBackward<T>& args,
                                                   const DropoutMask<T>& mask, const Block& block) {
  if (args.da != nullptr) {
    const std::int64_t first = block.row * args.shape.cols + block.col;
    const auto count = static_cast<std::int32_t>(block.rows * block.cols);
    if (args.accumulate_a) {
      pass_through<true>(args.da + first, args.dy + first, count);
    } else if (args.da != args.dy) {
      pass_through<false>(args.da + first, args.dy + first, count);
    }
  }
  if (args.accumulate_b) {
    pass_masked<true>(args, mask, block);
  } else {
    pass_masked<false>(args, mask, block);
  }
}

template <class T>
PARPLAN_VECTOR_CLONES void add_block(T* y, const T* x, std::int32_t count) {
  pass_through<true>(y, x, count);
}

template <class T>
PARPLAN_VECTOR_CLONES void scale_block(T* y, T factor, std::int32_t count) {
#pragma omp simd
  for (std::int32_t i = 0; i < count; ++i) {
    y[i] *= factor;
  }
}

template <class Body>
void for_each_range(std::int64_t count, const KernelContext& context, Body body) {
  for_each_block({1, count}, context, [&](const Block& block) {
    body(block.col, static_cast<std::int32_t>(block.cols));
  });
}

}  // namespace

template <class T>
void activation_forward(const ActivationForward<T>& args, const KernelContext& context) {
  const DropoutMask<T> mask(args.dropout);
  for_each_block(args.shape, context,
                 [&](const Block& block) { activation_forward_block(args, mask, block); });
}

template <class T>
void activation_backward(const ActivationBackward<T>& args, const KernelContext& context) {
  const DropoutMask<T> mask(args.dropout);
  for_each_block(args.shape, context,
                 [&](const Block& block) { activation_backward_block(args, mask, block); });
}

template <class T>
void swiglu_forward(const SwigluForward<T>& args, const KernelContext& context) {
  ensure(args.stride >= args.shape.cols, "rows of gate and up do not overlap");
  for_each_block(args.shape, context,
                 [&](const Block& block) { swiglu_forward_block(args, block); });
}

template <class T>
void swiglu_backward(const SwigluBackward<T>& args, const KernelContext& context) {
  ensure(args.stride >= args.shape.cols, "rows of gate and up do not overlap");
  for_each_block(args.shape, context,
                 [&](const Block& block) { swiglu_backward_block(args, block); });
}

template <class T>
void residual_forward(const ResidualForward<T>& args, const KernelContext& context) {
  const DropoutMask<T> mask(args.dropout);
  for_each_block(args.shape, context,
                 [&](const Block& block) { residual_forward_block(args, mask, block); });
}

template <class T>
void residual_backward(const ResidualBackward<T>& args, const KernelContext& context) {
  const DropoutMask<T> mask(args.dropout);
  for_each_block(args.shape, context,
                 [&](const Block& block) { residual_backward_block(args, mask, block); });
}

template <class T>
void add_elements(T* y, const T* x, std::int64_t count, const KernelContext& context) {
  for_each_range(count, context,
                 [&](std::int64_t at, std::int32_t n) { add_block(y + at, x + at, n); });
}

template <class T>
void copy_elements(T* y, const T* x, std::int64_t count, const KernelContext& context) {
  for_each_range(count, context, [&](std::int64_t at, std::int32_t n) {
    std::memcpy(y + at, x + at, static_cast<std::size_t>(n) * sizeof(T));
  });
}

template <class T>
void fill_elements(T* y, T value, std::int64_t count, const KernelContext& context) {
  for_each_range(count, context,
                 [&](std::int64_t at, std::int32_t n) { std::fill_n(y + at, n, value); });
}

template <class T>
void scale_elements(T* y, T factor, std::int64_t count, const KernelContext& context) {
  for_each_range(count, context,
                 [&](std::int64_t at, std::int32_t n) { scale_block(y + at, factor, n); });
}

#define PARPLAN_INSTANTIATE(T)                                                           \
  template void activation_forward(const ActivationForward<T>&, const KernelContext&);   \
  template void activation_backward(const ActivationBackward<T>&, const KernelContext&); \
  template void swiglu_forward(const SwigluForward<T>&, const KernelContext&);           \
  template void swiglu_backward(const SwigluBackward<T>&, const KernelContext&);         \
  template void residual_forward(const ResidualForward<T>&, const KernelContext&);       \
  template void residual_backward(const ResidualBackward<T>&, const KernelContext&);     \
  template void add_elements(T*, const T*, std::int64_t, const KernelContext&);          \
  template void copy_elements(T*, const T*, std::int64_t, const KernelContext&);         \
  template void fill_elements(T*, T, std::int64_t, const KernelContext&);                \
  template void scale_elements(T*, T, std::int64_t, const KernelContext&);
PARPLAN_INSTANTIATE(float)
PARPLAN_INSTANTIATE(double)
#undef PARPLAN_INSTANTIATE

}  // namespace parplan::hw
