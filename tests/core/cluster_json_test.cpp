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

TEST_CASE("samples without work are refused, as they would never be used", "[core]") {
  const auto sample = [](const char* code, const Json& sizes) {
    Json entry{{"code", code}, {"dtype", "float32"}, {"median_s", 1e-6}, {"relative_spread", 0.1}};
    entry.update(sizes);
    Json json = machine();
    json["operations"] = Json::array({entry});
    return refusal(json);
  };
  CHECK(sample("linear_forward", {{"rows", 1}, {"columns", 2}, {"inner", 3}}) == "accepted");
  CHECK_THAT(
      sample("linear_forward", {{"rows", 0}, {"columns", 2}, {"inner", 3}}),
      ContainsSubstring("$.operations[0]: linear_forward needs 'rows', 'columns', 'inner' of "
                        "1 or more, 'rows' is missing or 0"));
  CHECK_THAT(sample("linear_backward_weight", {{"rows", 1}, {"columns", 2}}),
             ContainsSubstring("'inner' is missing or 0"));
  CHECK_THAT(sample("adam", {{"rows", 1}}), ContainsSubstring("'columns' is missing or 0"));
  const Json attention{{"batch", 1}, {"queries", 2},  {"keys", 2},
                       {"heads", 2}, {"kv_heads", 1}, {"head_dim", 4}};
  CHECK(sample("attention_forward", attention) == "accepted");
  Json headless = attention;
  headless.erase("heads");
  CHECK_THAT(sample("attention_backward", headless), ContainsSubstring("'heads' is missing or 0"));
}

TEST_CASE("a calibration factor belongs to something that is priced", "[core]") {
  const auto factors = [](const std::vector<std::string>& keys) {
    Json json = machine();
    json["calibration"] = Json::array();
    for (const std::string& key : keys) {
      json["calibration"].push_back(
          {{"key", key}, {"factor", 1.5}, {"relative_spread", 0.1}, {"samples", 3}});
    }
    return refusal(json);
  };
  CHECK(factors({"linear_forward", "adam", "overlapped/all_reduce"}) == "accepted");
  CHECK_THAT(factors({"linear_foward"}),
             ContainsSubstring("$.calibration[0].key: expected the name of an operation code, or "
                               "\"overlapped/all_reduce\", found \"linear_foward\""));
  CHECK_THAT(factors({"adam", "adam"}),
             ContainsSubstring("$.calibration[1].key: 'adam' has a factor already"));
}
