#include "sim/core/sizes.hpp"

#include <string>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/positions.hpp"
#include "sim/core/units.hpp"

namespace parplan {
namespace {

/// Bytes of the largest element, float64.
constexpr double kElement = 8.0;
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::string gib(double bytes) {
  const double count = bytes / kGib;
  const bool countable = count < 1e18;
  return (countable ? std::to_string(static_cast<std::int64_t>(count)) : "over 10^18") + " GiB";
}

[[noreturn]] void fail(const std::string& what, double bytes, const std::string& smaller) {
  throw InputError(what + " takes about " + gib(bytes) + ", more than the " +
                   gib(static_cast<double>(kMostBytes.value)) + " that can be planned; make " +
                   smaller + " smaller");
}

}  // namespace

void check_sizes(const Model& model, const Workload& workload) {
  const auto most = static_cast<double>(kMostBytes.value);
  double parameters = 0.0;
  for (const Parameter& p : model.parameters) {
    parameters += 4.0 * kElement * static_cast<double>(p.rows) * static_cast<double>(p.columns);
  }
  if (parameters > most) fail("the model " + quoted_name(model.name), parameters, "its layers");
  double step = 0.0;
  double data = 0.0;
  for (const Value& v : model.values) {
    const double sample =
        kElement * static_cast<double>(positions_of(v, workload)) * static_cast<double>(v.features);
    step += 2.0 * sample * static_cast<double>(workload.global_batch);
    const bool real = v.role == ValueRole::kFeatures || v.role == ValueRole::kRealTarget;
    if (real) data += sample * static_cast<double>(workload.data.samples);
  }
  if (step > most)
    fail("a step of this batch", step, "the global batch, the sequence or the model");
  if (data > most) fail("the synthetic data set", data, "its number of samples");
}

}  // namespace parplan
