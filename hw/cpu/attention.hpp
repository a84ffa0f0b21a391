#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "hw/cpu/gemm_isa.hpp"
#include "hw/cpu/kernel_context.hpp"

// Scaled dot-product attention, softmax(scale * q k^T) v, with dropout on the probabilities. T:
// float, double.
//
// Shapes: q, out, dout, dq [batch, queries, heads, head_dim]; k, v, dk, dv [batch, keys, kv_heads,
// head_dim]; lse [batch, heads, queries]. Query head h uses key/value head h / (heads / kv_heads).
//
// Method: tiles of 128 queries by 128 keys with a running maximum and sum (Dao et al.,
// "FlashAttention", NeurIPS 2022, algorithms 1 and 4); nothing of queries x keys is stored.
// Backward computes the probabilities again from lse. Each result is one sum in a fixed order: it
// depends neither on polling nor on the number of threads, and a head's values not on the other
// heads.

namespace parplan::hw {

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< divides heads
  std::int64_t queries = 0;
  std::int64_t keys = 0;  ///< at least 1
  std::int64_t head_dim = 0;
};

/// Which probabilities are dropped, with probability p in [0, 1); the others are multiplied by 1 /
/// (1 - p). Element (batch b, head h, query i, key j) has logical row ((batch_offset + b) *
/// total_heads + head_offset + h) * queries + i and logical column j (hw/random.hpp), so any
/// sharding of batch and heads gives the mask of the whole. The default drops nothing.
struct AttentionDropout {
  double p = 0.0;
  std::uint64_t key = 0;
  std::int64_t batch_offset = 0;
  std::int64_t head_offset = 0;
  std::int64_t total_heads = 0;  ///< of the whole layer; used when p > 0
};

struct AttentionOptions {
  AttentionShape shape;
  bool causal = false;          ///< query i sees the keys j <= i only
  std::optional<double> scale;  ///< of the scores; 1 / sqrt(head_dim) unless given
  AttentionDropout dropout;
};

/// A tensor [batch, positions, heads, head_dim] whose positions lie `stride` elements apart; 0
/// stands for heads * head_dim (no gaps). A larger stride picks a part of a fused projection.
template <class T>
struct Positions {
  T* data = nullptr;
  std::int64_t stride = 0;
};

/// Writes `out`, and `lse`: the logarithm of the sum of exp(scaled score) over the visible keys.
template <class T>
struct AttentionForward {
  AttentionOptions options;
  Positions<const T> q;
  Positions<const T> k;
  Positions<const T> v;
  Positions<T> out;
  T* lse = nullptr;
  std::span<std::byte> scratch;  ///< attention_forward_scratch_bytes<T> of it, or a multiple
};

/// Writes the gradients dq, dk, dv of the loss, or adds them to what is there if accumulate_*;
/// `dout` is the gradient of `out`.
template <class T>
struct AttentionBackward {
  AttentionOptions options;
  Positions<const T> q;
  Positions<const T> k;
  Positions<const T> v;
  Positions<const T> out;
  const T* lse = nullptr;
  Positions<const T> dout;
  Positions<T> dq;
  Positions<T> dk;
  Positions<T> dv;
  bool accumulate_dq = false;
  bool accumulate_dk = false;
  bool accumulate_dv = false;
  std::span<std::byte> scratch;  ///< attention_backward_scratch_bytes<T> of it, or a multiple
};

/// Scratch for one thread, as workspace_bytes (sim/core) predicts it. The kernels run on as many
/// threads as there is scratch for, at most `threads()`. It is written before it is read; aligned
/// for T (64 bytes are faster).
template <class T>
[[nodiscard]] std::int64_t attention_forward_scratch_bytes(const AttentionShape& shape);
template <class T>
[[nodiscard]] std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape);

/// Outputs and scratch overlap nothing else. Polls about every millisecond, on the calling thread.
/// Thread-safe. Throws InternalError on a broken promise above. `isa`: the vector instructions to
/// use, which the machine must support (tests compare them).
template <class T>
void attention_forward(const KernelContext& context, const AttentionForward<T>& args,
                       Isa isa = host_isa());
template <class T>
void attention_backward(const KernelContext& context, const AttentionBackward<T>& args,
                        Isa isa = host_isa());

}  // namespace parplan::hw
