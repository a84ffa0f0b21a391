#include "hw/collectives/add.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "hw/elements.hpp"
#include "hw/half.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {

namespace {

constexpr std::size_t kCacheLine = 64;

template <class T>
__attribute__((always_inline)) inline void add_loop(T* out, const T* a, const T* b,
                                                    std::size_t count) {
  // Up to the output's first cache line one by one, so that stores do not cross lines.
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(out) % kCacheLine;
  const std::size_t head =
      misplaced == 0 ? 0 : std::min(count, (kCacheLine - misplaced) / sizeof(T));
  for (std::size_t i = 0; i < head; ++i) {
    out[i] = a[i] + b[i];
  }
  // `out` equal to `a` or `b` is no dependency between iterations.
#pragma GCC ivdep
  for (std::size_t i = head; i < count; ++i) {
    out[i] = a[i] + b[i];
  }
}

template <class T>
using AddFunction = void (*)(T*, const T*, const T*, std::size_t);

template <class T>
void add_plain(T* out, const T* a, const T* b, std::size_t count) {
  add_loop(out, a, b, count);
}

#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2"))) void add_avx2(T* out, const T* a, const T* b, std::size_t count) {
  add_loop(out, a, b, count);
}

template <class T>
__attribute__((target("avx512f,prefer-vector-width=512"))) void add_avx512(T* out, const T* a,
                                                                           const T* b,
                                                                           std::size_t count) {
  add_loop(out, a, b, count);
}
#endif

template <class T>
AddFunction<T> choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return add_avx512<T>;
  }
  if (__builtin_cpu_supports("avx2")) {
    return add_avx2<T>;
  }
#endif
  return add_plain<T>;
}

template <class T>
void add_as(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count) {
  static const AddFunction<T> kAdd = choose<T>();
  kAdd(reinterpret_cast<T*>(out), reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b),
       count);
}

/// In float32, each sum rounded.
void add_halves(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
                DType type) {
  constexpr std::size_t kPiece = 1024;
  std::array<float, kPiece> first;
  std::array<float, kPiece> second;
  const std::size_t element = size_of(type);
  for (std::size_t at = 0; at < count; at += kPiece) {
    const std::size_t piece = std::min(kPiece, count - at);
    const auto length = static_cast<std::int64_t>(piece);
    widen(first.data(), a + at * element, type, length);
    widen(second.data(), b + at * element, type, length);
    for (std::size_t i = 0; i < piece; ++i) first[i] += second[i];
    narrow(out + at * element, type, first.data(), length);
  }
}

}  // namespace

void add(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count, DType type) {
  switch (type) {
    case DType::kFloat32:
      return add_as<float>(out, a, b, count);
    case DType::kFloat64:
      return add_as<double>(out, a, b, count);
    case DType::kBFloat16:
    case DType::kFloat16:
      return add_halves(out, a, b, count, type);
    case DType::kInt32:
      break;
  }
  throw InternalError("internal error: sums exist for floating types only");
}

}  // namespace parplan::hw
