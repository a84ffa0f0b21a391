#include "sim/core/cluster_json.hpp"

#include <nlohmann/json.hpp>

#include "sim/core/cluster_presets.hpp"
#include "sim/core/error.hpp"
#include "sim/core/json_writer.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

using Json = nlohmann::ordered_json;

Json machine() {
  Json json = to_json(*make_cluster_preset("dgx-h100", 2));
  json["operations"] = Json::array({{{"code", "adam"},
                                     {"dtype", "float32"},
                                     {"rows", 1},
                                     {"columns", 1000},
                                     {"median_s", 1e-6},
                                     {"relative_spread", 0.1}}});
  return json;
}

std::string refusal(const Json& json) {
  try {
    static_cast<void>(read_cluster(JsonDocument("machine.json", dump(json))));
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// The refusal when the number at `pointer` is another.
std::string with(const char* pointer, const Json& value) {
  Json json = machine();
  json[Json::json_pointer(pointer)] = value;
  return refusal(json);
}

}  // namespace

TEST_CASE("numbers beyond every machine are refused by path and range", "[core]") {
  REQUIRE(refusal(machine()) == "accepted");
  const std::string time = "expected a number between 0 and 1e+06";
  const std::string size = "expected an integer between 0 and 1152921504606846976";
  const auto check = [](const char* pointer, const Json& value, const std::string& reason) {
    const std::string message = with(pointer, value);
    INFO(pointer << ": " << message);
    CHECK_THAT(message, ContainsSubstring("machine.json:"));
    CHECK_THAT(message, ContainsSubstring(reason));
  };
  check("/device/operation_overhead_s", 1e300, time);
  check("/device/step_overhead_s", -1.0, time);
  check("/intra_node/latency_s", 1e7, time);
  check("/operations/0/median_s", 1e300, time);
  check("/operations/0/columns", std::int64_t{1} << 50, "1099511627776");
  check("/device/peak_flop_per_s/float32", 1e-300, "between 1 and 1e+21");
  check("/device/peak_flop_per_s/float32", 1e22, "between 1 and 1e+21");
  check("/device/memory_bandwidth_bytes_per_s", 1e-300, "between 1 and 1e+21");
  check("/intra_node/bandwidth_bytes_per_s", -1.0, "between 1 and 1e+21");
  check("/intra_node/send_cpu_s_per_byte", 2.0, "between 0 and 1");
  check("/device/process_bytes", std::numeric_limits<std::int64_t>::max(), size);
  check("/device/memory_bytes", std::numeric_limits<std::int64_t>::max(), "1152921504606846976");
  check("/nodes", 2'000'000'000, "between 1 and 1048576");
  check("/devices_per_node", 1 << 20, "more than the 1048576 devices");
  CHECK(with("/nodes", (1 << 20) / 8) == "accepted");
}

TEST_CASE("a link that is used has a bandwidth", "[core]") {
  CHECK_THAT(with("/inter_node/bandwidth_bytes_per_s", 0.0), ContainsSubstring("$.inter_node"));
  CHECK_THAT(with("/intra_node/bandwidth_bytes_per_s", 0.0), ContainsSubstring("$.intra_node"));
  Json alone = machine();
  alone["nodes"] = alone["devices_per_node"] = 1;
  alone["inter_node"]["bandwidth_bytes_per_s"] = alone["intra_node"]["bandwidth_bytes_per_s"] = 0.0;
  CHECK(refusal(alone) == "accepted");
}
