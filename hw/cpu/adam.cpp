#include "hw/cpu/adam.hpp"

#include <cmath>

#include "hw/cpu/blocks.hpp"
#include "hw/cpu/vector_math.hpp"
#include "sim/core/error.hpp"

namespace parplan::hw {
namespace {

/// The scalars of one step, rounded to T where they meet elements.
template <class T>
struct Scalars {
  Scalars(const AdamSettings& s, std::int64_t step)
      : keep(static_cast<T>(s.decoupled ? 1.0 - s.lr * s.weight_decay : 1.0)),
        decay(static_cast<T>(s.decoupled ? 0.0 : s.weight_decay)),
        lerp(static_cast<T>(1.0 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        fresh(static_cast<T>(1.0 - s.beta2)),
        inverse_root(
            static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(s.beta2, static_cast<double>(step))))),
        eps(static_cast<T>(s.eps)),
        rate(static_cast<T>(s.lr / (1.0 - std::pow(s.beta1, static_cast<double>(step))))),
        factor(static_cast<T>(s.gradient_factor)) {}
  T keep, decay, lerp, beta2, fresh, inverse_root, eps, rate, factor;
};

template <class T>
PARPLAN_VECTOR_CLONES void adam_block(const AdamRange<T>& range, const Scalars<T>& scalars,
                                      std::int64_t first, std::int32_t count) {
  const Scalars<T> s = scalars;
  T* p = range.parameters + first;
  const T* g = range.gradients + first;
  T* m = range.first_moment + first;
  T* v = range.second_moment + first;
  // Times the inverse: a second division makes the step half as long again while the range is in
  // the cache (0.38 against 0.55 ns an element), for the same last bit of accuracy.
#pragma omp simd
  for (std::int32_t i = 0; i < count; ++i) {
    const T gradient = s.factor * g[i] + s.decay * p[i];
    const T first_moment = m[i] + s.lerp * (gradient - m[i]);
    const T second_moment = s.beta2 * v[i] + s.fresh * gradient * gradient;
    m[i] = first_moment;
    v[i] = second_moment;
    p[i] =
        s.keep * p[i] - s.rate * first_moment / (std::sqrt(second_moment) * s.inverse_root + s.eps);
  }
}

}  // namespace

template <class T>
void adam_step(const AdamRange<T>& range, const AdamSettings& settings, std::int64_t step,
               const KernelContext& context) {
  ensure(step >= 1, "Adam's steps count from one");
  const Scalars<T> scalars(settings, step);
  for_each_block({1, range.count}, context, [&](const Block& block) {
    adam_block(range, scalars, block.col, static_cast<std::int32_t>(block.cols));
  });
}

template void adam_step(const AdamRange<float>&, const AdamSettings&, std::int64_t,
                        const KernelContext&);
template void adam_step(const AdamRange<double>&, const AdamSettings&, std::int64_t,
                        const KernelContext&);

}  // namespace parplan::hw
