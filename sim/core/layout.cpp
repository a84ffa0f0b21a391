#include "sim/core/layout.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <set>

#include "sim/core/error.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/sharding.hpp"

namespace parplan {
namespace {

constexpr std::string_view kForm =
    "a layout looks like dp=2,tp=2,pp=2,schedule=1f1b,microbatches=8,stages=5+6 or "
    "mp=2,devices=0+0+1";

constexpr std::size_t kShownProblems = 2;
constexpr std::size_t kShownCountsBytes = 60;

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view without_outer_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

int parse_count(std::string_view item, std::string_view text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least ||
      value > kMostRanks) {
    throw InputError("layout: " + quoted_name(std::string(item) + "=" + std::string(text)) +
                     " needs an integer between " + std::to_string(least) + " and " +
                     std::to_string(kMostRanks) + "; " + std::string(kForm));
  }
  return value;
}

std::vector<int> parse_counts(std::string_view item, std::string_view text, int least) {
  std::vector<int> counts;
  for (const std::string_view part : split_text(text, '+')) {
    counts.push_back(parse_count(item, part, least));
  }
  return counts;
}

void parse_item(std::string_view item, std::string_view text, Layout& layout) {
  if (item == "dp") {
    layout.dp = parse_count(item, text, 1);
  } else if (item == "tp") {
    layout.tp = parse_count(item, text, 1);
  } else if (item == "pp") {
    layout.pp = parse_count(item, text, 1);
  } else if (item == "mp") {
    layout.mp = parse_count(item, text, 1);
  } else if (item == "microbatches") {
    layout.microbatches = parse_count(item, text, 1);
  } else if (item == "stages") {
    layout.stage_layers = parse_counts(item, text, 1);
  } else if (item == "devices") {
    layout.layer_devices = parse_counts(item, text, 0);
  } else if (item == "schedule") {
    const auto schedule = parse_pipeline_schedule(text);
    if (!schedule) {
      throw InputError("layout: unknown schedule " + quoted_name(text) + "; use gpipe or 1f1b");
    }
    layout.schedule = *schedule;
  } else {
    throw InputError("layout: unknown item " + quoted_name(item) +
                     "; known are dp, tp, pp, mp, schedule, microbatches, stages, devices; " +
                     std::string(kForm));
  }
}

std::string join(const std::vector<int>& counts) {
  std::string text;
  for (const int c : counts) text += (text.empty() ? "" : "+") + std::to_string(c);
  return text;
}

/// The divisors of `n` nearest to `wanted`, as words; none that is far larger.
std::string nearest_divisors(std::int64_t n, std::int64_t wanted) {
  std::int64_t below = 1;
  std::int64_t above = n;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    for (const std::int64_t divisor : {d, n / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor >= wanted) above = std::min(above, divisor);
    }
  }
  return below == above || above > 2 * wanted
             ? std::to_string(below)
             : std::to_string(below) + " or " + std::to_string(above);
}

/// Those of them that are nearest to `wanted`, as words: "1, 2, 4 or 8".
std::string some_divisors(std::int64_t n, std::int64_t wanted) {
  constexpr std::size_t kShown = 8;
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= std::min<std::int64_t>(n, kMostRanks); ++d) {
    if (n % d == 0) divisors.push_back(d);
  }
  const std::size_t shown = std::min(kShown, divisors.size());
  std::stable_sort(divisors.begin(), divisors.end(), [wanted](std::int64_t a, std::int64_t b) {
    return std::abs(a - wanted) < std::abs(b - wanted);
  });
  divisors.resize(shown);
  std::sort(divisors.begin(), divisors.end());
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == shown ? " or " : ", ";
    text += std::to_string(divisors[i]);
  }
  return text;
}

/// "stages=3+4", not all of it where it is long.
std::string shown(const char* item, const std::vector<int>& counts) {
  return item + std::string("=") + shortened(join(counts), kShownCountsBytes);
}

class LayoutChecker {
 public:
  LayoutChecker(const Model& model, const Workload& workload, const Layout& layout)
      : model_(model), workload_(workload), layout_(layout) {}

  std::vector<Refusal> run() {
    if (layout_.dp < 1 || layout_.tp < 1 || layout_.pp < 1 || layout_.mp < 1 ||
        layout_.microbatches < 1) {
      refuse("dp, tp, pp, mp and microbatches must be at least 1", "1 or more of each");
      return refusals_;
    }
    check_axes();
    check_batch();
    check_placement();
    check_tensor();
    check_positions();
    return refusals_;
  }

 private:
  void refuse(std::string reason, std::string suggestion) {
    refusals_.push_back({std::move(reason), std::move(suggestion)});
  }

  void check_axes() {
    if (layout_.pp > 1 && layout_.mp > 1) {
      refuse("pp=" + std::to_string(layout_.pp) + " and mp=" + std::to_string(layout_.mp) +
                 " exclude each other: both place layers on devices",
             "pp or mp alone");
    }
    if (layout_.mp > 1 && layout_.microbatches > 1) {
      refuse("model parallelism (mp) runs the whole batch at once, microbatches=" +
                 std::to_string(layout_.microbatches) + " needs a pipeline",
             "microbatches=1, or pp=" + std::to_string(layout_.mp) + " instead of mp");
    }
    if (layout_.ranks() > kMostRanks) {
      refuse("more than " + std::to_string(kMostRanks) + " ranks", "smaller dp, tp, pp or mp");
    }
    if (layout_.microbatches > kMostMicrobatches) {
      refuse("more than " + std::to_string(kMostMicrobatches) + " microbatches",
             "larger microbatches");
    }
    if (layout_.positions() > 1023) refuse("more than 1023 stages or devices", "pp <= 1023");
  }

  void check_batch() {
    const std::int64_t batch = workload_.global_batch;
    if (batch % layout_.dp != 0) {
      refuse("global batch " + std::to_string(batch) +
                 " does not divide by dp=" + std::to_string(layout_.dp),
             "dp=" + nearest_divisors(batch, layout_.dp));
      return;
    }
    const std::int64_t per_replica = batch / layout_.dp;
    if (per_replica % layout_.microbatches != 0) {
      refuse("the replica's batch " + std::to_string(per_replica) + " does not divide into " +
                 std::to_string(layout_.microbatches) + " microbatches",
             "microbatches=" + nearest_divisors(per_replica, layout_.microbatches));
    }
  }

  void check_placement() {
    const int layers = static_cast<int>(model_.layers.size());
    const int positions = layout_.positions();
    if (positions > layers) {
      refuse(std::to_string(positions) + " stages or devices for " + std::to_string(layers) +
                 " layers: some would be empty",
             "at most " + std::to_string(layers));
    }
    if (!layout_.stage_layers.empty()) check_stages(layers);
    if (!layout_.layer_devices.empty()) check_devices(layers);
  }

  void check_stages(int layers) {
    const auto& stages = layout_.stage_layers;
    if (static_cast<int>(stages.size()) != layout_.pp) {
      refuse(shown("stages", stages) + " lists " + std::to_string(stages.size()) +
                 " stages, pp is " + std::to_string(layout_.pp),
             "one count per stage");
    }
    const std::int64_t sum = std::accumulate(stages.begin(), stages.end(), std::int64_t{0});
    if (sum != layers) {
      refuse(shown("stages", stages) + " places " + std::to_string(sum) +
                 " layers, the model has " + std::to_string(layers),
             "counts that sum to " + std::to_string(layers));
    }
    if (std::any_of(stages.begin(), stages.end(), [](int n) { return n < 1; })) {
      refuse("a stage without layers", "at least one layer per stage");
    }
  }

  void check_devices(int layers) {
    const auto& devices = layout_.layer_devices;
    if (layout_.mp == 1) {
      refuse(shown("devices", devices) + " places layers for mp, the layout has none",
             layout_.pp > 1 ? "stages=.. for the stages of pp" : "mp=2 or more, or no devices");
      return;
    }
    if (static_cast<int>(devices.size()) != layers) {
      refuse("devices lists " + std::to_string(devices.size()) + " layers, the model has " +
                 std::to_string(layers),
             "one device per layer");
    }
    const std::set<int> used(devices.begin(), devices.end());
    if (*used.begin() < 0 || *used.rbegin() >= layout_.mp ||
        static_cast<int>(used.size()) != layout_.mp) {
      refuse(shown("devices", devices) + " must use each of 0.." + std::to_string(layout_.mp - 1),
             "at least one layer for every device");
    }
  }

  void check_tensor() {
    std::vector<std::string> problems;
    const TensorSharding sharding(model_, layout_.tp, problems);
    if (problems.empty()) return;
    refuse(first_of(problems, kShownProblems),
           "tp=" + some_divisors(sharding.common_divisor(), layout_.tp));
  }

  void check_positions() {
    for (const Op& op : model_.ops) {
      const auto* table = std::get_if<PositionEmbeddingOp>(&op.body);
      if (table == nullptr) continue;
      const bool source = model_.value(op.output).positions == Positions::kSource;
      const std::int64_t length = source ? workload_.source_sequence : workload_.sequence;
      if (length > table->max_positions) {
        refuse("sequence " + std::to_string(length) + " is longer than the model's " +
                   std::to_string(table->max_positions) + " learned positions",
               "--sequence " + std::to_string(table->max_positions) + " or less");
        return;
      }
    }
  }

  const Model& model_;
  const Workload& workload_;
  const Layout& layout_;
  std::vector<Refusal> refusals_;
};

}  // namespace

Layout parse_layout(std::string_view text) {
  Layout layout;
  if (without_outer_spaces(text) == "single") return layout;
  std::set<std::string_view> seen;
  for (const std::string_view spaced : split_text(text, ',')) {
    const std::string_view part = without_outer_spaces(spaced);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw InputError("layout: " + quoted_name(part) + " has no '='; " + std::string(kForm));
    }
    const std::string_view item = part.substr(0, equals);
    if (!seen.insert(item).second) {
      throw InputError("layout: " + quoted_name(item) + " is given twice");
    }
    parse_item(item, part.substr(equals + 1), layout);
  }
  if (layout.mp > 1 && seen.contains("schedule")) {
    throw InputError("layout: " + quoted_name(text) +
                     ": mp has no schedule; leave it out, or use pp in the place of mp");
  }
  if (layout.ranks() > kMostRanks) {
    throw InputError("layout: " + quoted_name(text) + " has more than the " +
                     std::to_string(kMostRanks) + " ranks that can be planned");
  }
  return layout;
}

std::string to_string(const Layout& layout) {
  std::string text;
  const auto add = [&text](const std::string& item) { text += (text.empty() ? "" : ",") + item; };
  if (layout.dp > 1) add("dp=" + std::to_string(layout.dp));
  if (layout.tp > 1) add("tp=" + std::to_string(layout.tp));
  if (layout.pp > 1) add("pp=" + std::to_string(layout.pp));
  if (layout.mp > 1) add("mp=" + std::to_string(layout.mp));
  // Without a pipeline 1f1b is plain gradient accumulation and goes without saying.
  const bool accumulates = layout.pp == 1 && layout.microbatches > 1;
  const bool one_by_one = layout.schedule == PipelineSchedule::kOneForwardOneBackward;
  if (layout.pp > 1 || (accumulates && !one_by_one)) {
    add("schedule=" + std::string(pipeline_schedule_name(layout.schedule)));
  }
  if (layout.pp > 1 || accumulates) add("microbatches=" + std::to_string(layout.microbatches));
  if (layout.pp > 1 && !layout.stage_layers.empty()) add("stages=" + join(layout.stage_layers));
  if (layout.mp > 1 && !layout.layer_devices.empty()) {
    add("devices=" + join(layout.layer_devices));
  }
  return text.empty() ? "single" : text;
}

std::vector<Refusal> check_layout(const Model& model, const Workload& workload,
                                  const Layout& layout) {
  return LayoutChecker(model, workload, layout).run();
}

}  // namespace parplan
