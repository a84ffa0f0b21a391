#include "hw/cpu/attention.hpp"

#include "hw/cpu/attention_tile.hpp"
#include "hw/cpu/threads.hpp"
#include "hw/random.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

// Work between two polls: a millisecond at the 100 (float) and 30 GFLOP/s that attention reaches.
constexpr double kPollWork = 1e8;
constexpr double kPollWorkDouble = 3e7;

/// Calls the poll of the thread that has one after every piece of work of that size.
class WorkPoll {
 public:
  WorkPoll() = default;
  WorkPoll(const Poll& poll, double period) : poll_(poll), period_(period) {}
  void count(double flop) {
    work_ += flop;
    if (work_ >= period_) {
      work_ = 0;
      poll_();
    }
  }

 private:
  Poll poll_;
  double period_ = 1e8;
  double work_ = 0;
};

/// Hands out parts of the scratch buffer.
template <class T>
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* start) : next_(reinterpret_cast<T*>(start)) {}
  T* take(std::int64_t rows, std::int64_t cols) {
    T* const part = next_;
    next_ += rows * cols;
    return part;
  }

 private:
  T* next_;
};

/// The tile sizes that a shape needs; what they add up to is workspace_bytes.
struct TileSizes {
  explicit TileSizes(const AttentionShape& shape)
      : queries(padded(std::min(shape.queries, kQueryTile))),
        keys(std::min(shape.keys, kKeyTile)),
        head_dim(shape.head_dim),
        width(padded(shape.head_dim)) {}
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t head_dim;
  std::int64_t width;
};

template <class T>
ForwardScratch<T> forward_scratch(const TileSizes& s, std::byte* start) {
  ScratchParts<T> parts(start);
  return {parts.take(s.head_dim, s.queries), parts.take(s.keys, s.queries),
          parts.take(s.keys, s.width), parts.take(s.queries, s.width)};
}

template <class T>
BackwardScratch<T> backward_scratch(const TileSizes& s, std::byte* start) {
  ScratchParts<T> parts(start);
  return {parts.take(s.head_dim, s.queries), parts.take(s.head_dim, s.queries),
          parts.take(s.keys, s.queries),     parts.take(s.keys, s.queries),
          parts.take(s.queries, s.width),    parts.take(s.queries, s.width),
          parts.take(s.queries, s.width),    parts.take(s.keys, s.width),
          parts.take(s.keys, s.width),       parts.take(s.keys, s.width)};
}

/// Where a head lies in a tensor [batch, positions, heads, head_dim].
struct HeadPlace {
  std::int64_t batch;
  std::int64_t head;
  std::int64_t heads;
  std::int64_t positions;
  std::int64_t head_dim;
};

template <class T>
Rows<T> head_rows(const Positions<T>& tensor, const HeadPlace& place) {
  const std::int64_t stride = tensor.stride == 0 ? place.heads * place.head_dim : tensor.stride;
  return {tensor.data + place.batch * place.positions * stride + place.head * place.head_dim,
          stride, place.positions, place.head_dim};
}

HeadPlace query_place(const AttentionShape& shape, std::int64_t batch, std::int64_t head) {
  return {batch, head, shape.heads, shape.queries, shape.head_dim};
}
HeadPlace key_place(const AttentionShape& shape, std::int64_t batch, std::int64_t kv_head) {
  return {batch, kv_head, shape.kv_heads, shape.keys, shape.head_dim};
}

double scale_of(const AttentionOptions& options) {
  return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(options.shape.head_dim)));
}

/// The part of a task that all query tiles of a head share.
template <class T, class Args>
TileTask<T> head_task(const Args& args, std::int64_t batch, std::int64_t head) {
  const AttentionOptions& options = args.options;
  const AttentionShape& shape = options.shape;
  const HeadPlace keys = key_place(shape, batch, head / (shape.heads / shape.kv_heads));
  TileTask<T> task;
  task.k = head_rows(args.k, keys);
  task.v = head_rows(args.v, keys);
  task.causal = options.causal;
  task.score_scale = static_cast<T>(scale_of(options) * std::numbers::log2e);
  task.threshold = dropout_threshold(options.dropout.p);
  task.keep_scale = static_cast<T>(1.0 / (1.0 - options.dropout.p));
  return task;
}

/// Points the task at the tile of queries from `first` on.
template <class T, class Args>
void select_queries(const Args& args, std::int64_t batch, std::int64_t head, std::int64_t first,
                    TileTask<T>& task) {
  const AttentionShape& shape = args.options.shape;
  const AttentionDropout& dropout = args.options.dropout;
  const Rows<const T> all = head_rows(args.q, query_place(shape, batch, head));
  task.q = rows_from(all, first, std::min(kQueryTile, shape.queries - first));
  task.first_query = first;
  if (task.threshold == 0) {
    return;
  }
  const std::int64_t row =
      ((dropout.batch_offset + batch) * dropout.total_heads + dropout.head_offset + head) *
          shape.queries +
      first;
  for (std::int64_t i = 0; i < task.q.rows; ++i) {
    const DropoutKey key = dropout_row_key(dropout.key, static_cast<std::uint64_t>(row + i));
    task.key_a[static_cast<std::size_t>(i)] = key.a;
    task.key_b[static_cast<std::size_t>(i)] = key.b;
  }
}

/// FLOP of `products` products between a tile's queries and `keys` keys.
template <class T>
double tile_flop(const TileTask<T>& task, std::int64_t keys, int products) {
  return 2.0 * products * static_cast<double>(task.q.rows) * static_cast<double>(keys) *
         static_cast<double>(task.q.cols);
}

/// All queries of head `item` (of batch x heads).
template <class T, Isa kIsa>
PARPLAN_INLINE void forward_head(const AttentionForward<T>& args, std::int64_t item,
                                 std::byte* scratch, WorkPoll& poll) {
  const AttentionShape& shape = args.options.shape;
  const std::int64_t batch = item / shape.heads;
  const std::int64_t head = item % shape.heads;
  const ForwardScratch<T> parts = forward_scratch<T>(TileSizes(shape), scratch);
  const Rows<T> out = head_rows(args.out, query_place(shape, batch, head));
  TileTask<T> task = head_task<T>(args, batch, head);
  for (std::int64_t first = 0; first < shape.queries; first += kQueryTile) {
    select_queries(args, batch, head, first, task);
    forward_tile<T, kIsa>(task, parts,
                          {out.data + first * out.stride, out.stride, task.q.rows, out.cols},
                          args.lse + item * shape.queries + first);
    poll.count(tile_flop(task, task.visible_keys(), 2));
  }
}

/// One tile of keys against all queries of a head.
template <class T, Isa kIsa>
PARPLAN_INLINE void backward_key_tile(const AttentionBackward<T>& args, TileTask<T>& task,
                                      std::int64_t item, std::int64_t first_key,
                                      const BackwardScratch<T>& parts, WorkPoll& poll) {
  const AttentionShape& shape = args.options.shape;
  const std::int64_t batch = item / shape.heads;
  const std::int64_t head = item % shape.heads;
  const HeadPlace place = query_place(shape, batch, head);
  const Rows<const T> out = head_rows(args.out, place);
  const Rows<const T> dout = head_rows(args.dout, place);
  const Rows<T> dq = head_rows(args.dq, place);
  const std::int64_t start = task.causal ? first_key / kQueryTile * kQueryTile : 0;
  for (std::int64_t first = start; first < shape.queries; first += kQueryTile) {
    select_queries(args, batch, head, first, task);
    const std::int64_t keys = std::min(kKeyTile, task.visible_keys() - first_key);
    if (keys <= 0) {
      continue;
    }
    const std::int64_t count = task.q.rows;
    const BackwardRows<T> rows{rows_from(out, first, count),
                               rows_from(dout, first, count),
                               args.lse + item * shape.queries + first,
                               {dq.data + first * dq.stride, dq.stride, count, dq.cols},
                               static_cast<T>(scale_of(args.options))};
    backward_tile<T, kIsa>(task, {first_key, keys, padded(count)}, rows, parts,
                           args.accumulate_dq || first_key > 0);
    poll.count(tile_flop(task, keys, 5));
  }
}

/// All heads that use key/value head `item` (of batch x kv_heads).
template <class T, Isa kIsa>
PARPLAN_INLINE void backward_kv_head(const AttentionBackward<T>& args, std::int64_t item,
                                     std::byte* scratch, WorkPoll& poll) {
  const AttentionShape& shape = args.options.shape;
  const std::int64_t batch = item / shape.kv_heads;
  const std::int64_t kv_head = item % shape.kv_heads;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const BackwardScratch<T> parts = backward_scratch<T>(TileSizes(shape), scratch);
  const Rows<T> dk = head_rows(args.dk, key_place(shape, batch, kv_head));
  const Rows<T> dv = head_rows(args.dv, key_place(shape, batch, kv_head));
  const std::int64_t width = padded(shape.head_dim);
  for (std::int64_t first = 0; first < shape.keys; first += kKeyTile) {
    const std::int64_t keys = std::min(kKeyTile, shape.keys - first);
    std::fill_n(parts.dk, keys * width, T{0});
    std::fill_n(parts.dv, keys * width, T{0});
    TileTask<T> task = head_task<T>(args, batch, kv_head * group);
    copy_rows<T, kIsa>(rows_from(task.k, first, keys), parts.k, width);
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      backward_key_tile<T, kIsa>(args, task, batch * shape.heads + head, first, parts, poll);
    }
    write_rows<T, kIsa>(parts.dk, width, static_cast<T>(scale_of(args.options)),
                        {dk.data + first * dk.stride, dk.stride, keys, dk.cols},
                        args.accumulate_dk);
    write_rows<T, kIsa>(parts.dv, width, task.keep_scale,
                        {dv.data + first * dv.stride, dv.stride, keys, dv.cols},
                        args.accumulate_dv);
  }
}

// The loops above for each instruction set.
template <class T>
void run_head_base(const AttentionForward<T>& args, std::int64_t item, std::byte* scratch,
                   WorkPoll& poll) {
  forward_head<T, Isa::kBase>(args, item, scratch, poll);
}
template <class T>
void run_head_base(const AttentionBackward<T>& args, std::int64_t item, std::byte* scratch,
                   WorkPoll& poll) {
  backward_kv_head<T, Isa::kBase>(args, item, scratch, poll);
}
template <class T>
PARPLAN_TARGET_AVX2 void run_head_avx2(const AttentionForward<T>& args, std::int64_t item,
                                       std::byte* scratch, WorkPoll& poll) {
  forward_head<T, Isa::kAvx2>(args, item, scratch, poll);
}
template <class T>
PARPLAN_TARGET_AVX2 void run_head_avx2(const AttentionBackward<T>& args, std::int64_t item,
                                       std::byte* scratch, WorkPoll& poll) {
  backward_kv_head<T, Isa::kAvx2>(args, item, scratch, poll);
}
template <class T>
PARPLAN_TARGET_AVX512 void run_head_avx512(const AttentionForward<T>& args, std::int64_t item,
                                           std::byte* scratch, WorkPoll& poll) {
  forward_head<T, Isa::kAvx512>(args, item, scratch, poll);
}
template <class T>
PARPLAN_TARGET_AVX512 void run_head_avx512(const AttentionBackward<T>& args, std::int64_t item,
                                           std::byte* scratch, WorkPoll& poll) {
  backward_kv_head<T, Isa::kAvx512>(args, item, scratch, poll);
}

template <class Args>
using HeadFunction = void (*)(const Args&, std::int64_t, std::byte*, WorkPoll&);

template <class T, class Args>
HeadFunction<Args> head_function(Isa isa) {
  switch (isa) {
    case Isa::kBase:
      return &run_head_base<T>;
    case Isa::kAvx2:
      return &run_head_avx2<T>;
    case Isa::kAvx512:
      return &run_head_avx512<T>;
  }
  throw InternalError("internal error: unknown instruction set");
}

std::int64_t scratch_bytes(OpCode code, const AttentionShape& shape, std::size_t element_bytes) {
  OpShape sizes;
  sizes.queries = shape.queries;
  sizes.keys = shape.keys;
  sizes.head_dim = shape.head_dim;
  return workspace_bytes(code, sizes, element_bytes == 4 ? DType::kFloat32 : DType::kFloat64).value;
}

void check(const AttentionOptions& options) {
  const AttentionShape& s = options.shape;
  ensure(s.batch >= 0 && s.queries >= 0 && s.keys >= 1 && s.head_dim >= 1,
         "attention has keys and a head dimension, and no negative size");
  ensure(s.heads >= 1 && s.kv_heads >= 1 && s.heads % s.kv_heads == 0,
         "the heads of attention share the key/value heads evenly");
  const AttentionDropout& d = options.dropout;
  ensure(d.p >= 0.0 && d.p < 1.0, "a dropout probability lies in [0, 1)");
  ensure(d.p == 0.0 || (d.head_offset >= 0 && d.batch_offset >= 0 &&
                        d.head_offset + s.heads <= d.total_heads),
         "the heads of attention lie within the layer's heads");
}

/// Runs the items on the threads for which there is scratch.
template <class T, class Args>
void run_heads(const KernelContext& context, const Args& args, std::int64_t items,
               std::int64_t scratch_bytes, Isa isa) {
  const auto room = static_cast<std::int64_t>(args.scratch.size()) / scratch_bytes;
  ensure(room >= 1, "attention has scratch for one thread");
  const int team = static_cast<int>(std::min<std::int64_t>(room, threads()));
  const HeadFunction<Args> head = head_function<T, Args>(isa);
  WorkPoll polled(context.poll, sizeof(T) == 4 ? kPollWork : kPollWorkDouble);
  auto body = [&](std::int64_t item, int thread) {
    WorkPoll silent;
    head(args, item, args.scratch.data() + thread * scratch_bytes, thread == 0 ? polled : silent);
  };
  parallel_for(items, team, body);
}

}  // namespace

template <class T>
std::int64_t attention_forward_scratch_bytes(const AttentionShape& shape) {
  return scratch_bytes(OpCode::kAttentionForward, shape, sizeof(T));
}

template <class T>
std::int64_t attention_backward_scratch_bytes(const AttentionShape& shape) {
  return scratch_bytes(OpCode::kAttentionBackward, shape, sizeof(T));
}

template <class T>
void attention_forward(const KernelContext& context, const AttentionForward<T>& args, Isa isa) {
  check(args.options);
  const AttentionShape& shape = args.options.shape;
  if (shape.batch * shape.queries > 0) {
    run_heads<T>(context, args, shape.batch * shape.heads,
                 attention_forward_scratch_bytes<T>(shape), isa);
  }
}

template <class T>
void attention_backward(const KernelContext& context, const AttentionBackward<T>& args, Isa isa) {
  check(args.options);
  const AttentionShape& shape = args.options.shape;
  if (shape.batch > 0) {
    run_heads<T>(context, args, shape.batch * shape.kv_heads,
                 attention_backward_scratch_bytes<T>(shape), isa);
  }
}

template std::int64_t attention_forward_scratch_bytes<float>(const AttentionShape&);
template std::int64_t attention_forward_scratch_bytes<double>(const AttentionShape&);
template std::int64_t attention_backward_scratch_bytes<float>(const AttentionShape&);
template std::int64_t attention_backward_scratch_bytes<double>(const AttentionShape&);
template void attention_forward<float>(const KernelContext&, const AttentionForward<float>&, Isa);
template void attention_forward<double>(const KernelContext&, const AttentionForward<double>&, Isa);
template void attention_backward<float>(const KernelContext&, const AttentionBackward<float>&, Isa);
template void attention_backward<double>(const KernelContext&, const AttentionBackward<double>&,
                                         Isa);

}  // namespace parplan::hw
