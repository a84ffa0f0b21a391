#include "sim/core/cluster_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "sim/core/enum_name.hpp"
#include "sim/core/json_reader.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/message_text.hpp"
#include "sim/core/nearest.hpp"
#include "sim/core/plan_json.hpp"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kDTypes =
    enum_names(DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kBFloat16, DType::kFloat16);
constexpr std::array kFunctions{
    EnumName<Activation>{"relu", Activation::kRelu},
    EnumName<Activation>{"gelu_erf", Activation::kGeluErf},
    EnumName<Activation>{"gelu_tanh", Activation::kGeluTanh},
    EnumName<Activation>{"silu", Activation::kSilu},
};

/// What a machine file may say: far beyond every machine there is, and within what sums and
/// products of these numbers can hold.
constexpr NumberRange kTime = NumberRange::between(0, 1e6);         // seconds
constexpr NumberRange kTimePerByte = NumberRange::between(0, 1.0);  // seconds
constexpr NumberRange kRate = NumberRange::between(1, 1e21);        // per second
constexpr NumberRange kFactor = NumberRange::between(1e-9, 1e9);
constexpr int kMostCores = 1 << 20;

Seconds read_time(JsonReader& r, const char* key) { return r.quantity<Seconds>(key, kTime); }

Bytes read_bytes(JsonReader& r, const char* key, std::int64_t least = 0) {
  return r.quantity<Bytes>(key, least, kMostBytes.value);
}

Bytes read_optional_bytes(JsonReader& r, const char* key) {
  return r.optional_quantity<Bytes>(key, std::int64_t{0}, kMostBytes.value).value_or(Bytes{});
}

/// 0 stands for what was not measured and is not used.
BytesPerSecond read_bandwidth(JsonReader& r, const char* key) {
  const JsonElement element = r.require(key);
  const double rate = element.number();
  if (rate != 0.0 && !(rate >= kRate.min && rate <= kRate.max)) {
    element.fail_expected("0 (not measured) or " + to_string(kRate));
  }
  return BytesPerSecond{rate};
}

struct ShapeField {
  const char* key;
  std::int64_t OpShape::*member;
};
constexpr std::array kShapeFields{
    ShapeField{"rows", &OpShape::rows},         ShapeField{"columns", &OpShape::columns},
    ShapeField{"inner", &OpShape::inner},       ShapeField{"batch", &OpShape::batch},
    ShapeField{"queries", &OpShape::queries},   ShapeField{"keys", &OpShape::keys},
    ShapeField{"heads", &OpShape::heads},       ShapeField{"kv_heads", &OpShape::kv_heads},
    ShapeField{"head_dim", &OpShape::head_dim},
};

Json sample_json(const OperationSample& sample) {
  Json json{{"code", name_of(sample.code)}, {"dtype", name_of(sample.dtype)}};
  for (const ShapeField& field : kShapeFields) {
    if (sample.shape.*field.member != 0) json[field.key] = sample.shape.*field.member;
  }
  if (sample.variant.dropout) json["dropout"] = true;
  if (sample.variant.causal) json["causal"] = true;
  if (sample.variant.accumulate) json["accumulate"] = true;
  if (sample.code == OpCode::kActivationForward || sample.code == OpCode::kActivationBackward) {
    json["function"] = name_of<Activation>(sample.variant.function, kFunctions);
  }
  json["busy_ranks"] = sample.busy_ranks;
  json["working_set_bytes"] = sample.working_set.value;
  json["median_s"] = sample.median.value;
  json["relative_spread"] = sample.relative_spread;
  return json;
}

/// A sample of no work says nothing and would never be used.
void refuse_empty_shape(JsonReader& r, OpCode code, const OpShape& shape) {
  static constexpr std::array<std::string_view, 2> kMatrix{"rows", "columns"};
  static constexpr std::array<std::string_view, 3> kProduct{"rows", "columns", "inner"};
  static constexpr std::array<std::string_view, 6> kAttention{"batch", "queries",  "keys",
                                                              "heads", "kv_heads", "head_dim"};
  std::span<const std::string_view> needed = kMatrix;
  if (code == OpCode::kLinearForward || code == OpCode::kLinearBackwardInput ||
      code == OpCode::kLinearBackwardWeight) {
    needed = kProduct;
  } else if (code == OpCode::kAttentionForward || code == OpCode::kAttentionBackward) {
    needed = kAttention;
  }
  for (const ShapeField& field : kShapeFields) {
    if (shape.*field.member > 0) continue;
    if (std::find(needed.begin(), needed.end(), field.key) == needed.end()) continue;
    r.element().fail(std::string(name_of(code)) + " needs " + quoted_list(needed) +
                     " of 1 or more, '" + field.key + "' is missing or 0");
  }
}

OperationSample read_sample(JsonReader& r) {
  OperationSample sample;
  const JsonElement code = r.require("code");
  const auto known = op_code_from_name(code.string());
  if (!known) code.fail_expected("the name of an operation code");
  sample.code = *known;
  sample.dtype = r.enumeration<DType>("dtype", kDTypes);
  for (const ShapeField& field : kShapeFields) {
    sample.shape.*field.member =
        r.optional_integer<std::int64_t>(field.key, 0, kMostElements).value_or(0);
  }
  refuse_empty_shape(r, sample.code, sample.shape);
  sample.variant.dropout = r.optional_boolean("dropout").value_or(false);
  sample.variant.causal = r.optional_boolean("causal").value_or(false);
  sample.variant.accumulate = r.optional_boolean("accumulate").value_or(false);
  sample.variant.function =
      r.optional_enumeration<Activation>("function", kFunctions).value_or(Activation::kRelu);
  sample.busy_ranks = r.optional_integer<int>("busy_ranks", 1, kMostRanks).value_or(1);
  sample.working_set = read_optional_bytes(r, "working_set_bytes");
  sample.median = read_time(r, "median_s");
  sample.relative_spread = r.number("relative_spread", NumberRange::at_least(0));
  return sample;
}

Json transfer_json(const TransferSample& t) {
  Json json{{"kind", name_of(t.kind)},
            {"ranks", t.ranks},
            {"bytes", t.bytes.value},
            {"median_s", t.median.value},
            {"cpu_s", t.cpu.value},
            {"peer_cpu_s", t.peer_cpu.value},
            {"relative_spread", t.relative_spread}};
  if (t.in_situ) json["in_situ"] = true;
  return json;
}

TransferSample read_transfer(JsonReader& r) {
  TransferSample t;
  const JsonElement kind = r.require("kind");
  const auto known = collective_from_name(kind.string());
  if (!known)
    kind.fail_expected(
        "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast "
        "or send_receive");
  t.kind = *known;
  t.ranks = r.integer<int>("ranks", 2, kMostRanks);
  t.bytes = read_bytes(r, "bytes");
  t.median = read_time(r, "median_s");
  t.cpu = read_time(r, "cpu_s");
  t.peer_cpu = read_time(r, "peer_cpu_s");
  t.relative_spread = r.number("relative_spread", NumberRange::at_least(0));
  t.in_situ = r.optional_boolean("in_situ").value_or(false);
  return t;
}

Json link_json(const LinkSpec& link) {
  return {{"name", link.name},
          {"latency_s", link.latency.value},
          {"bandwidth_bytes_per_s", link.bandwidth.value},
          {"send_cpu_s_per_byte", link.send_cpu_s_per_byte},
          {"receive_cpu_s_per_byte", link.receive_cpu_s_per_byte},
          {"half_duplex", link.half_duplex},
          {"shared", link.shared}};
}

LinkSpec read_link(JsonReader& r) {
  LinkSpec link;
  link.name = r.string("name");
  link.latency = read_time(r, "latency_s");
  link.bandwidth = read_bandwidth(r, "bandwidth_bytes_per_s");
  link.send_cpu_s_per_byte = r.optional_number("send_cpu_s_per_byte", kTimePerByte).value_or(0);
  link.receive_cpu_s_per_byte =
      r.optional_number("receive_cpu_s_per_byte", kTimePerByte).value_or(0);
  link.half_duplex = r.optional_boolean("half_duplex").value_or(false);
  link.shared = r.optional_boolean("shared").value_or(false);
  return link;
}

Json device_json(const DeviceSpec& device) {
  Json peak = Json::object();
  for (const auto& [dtype, rate] : device.peak) peak[std::string(name_of(dtype))] = rate.value;
  return {{"name", device.name},
          {"memory_bytes", device.memory.value},
          {"cores", device.cores},
          {"peak_flop_per_s", std::move(peak)},
          {"memory_bandwidth_bytes_per_s", device.memory_bandwidth.value},
          {"operation_overhead_s", device.operation_overhead.value},
          {"instruction_overhead_s", device.instruction_overhead.value},
          {"step_overhead_s", device.step_overhead.value},
          {"process_bytes", device.process_bytes.value},
          {"product_bytes", device.product_bytes.value},
          {"transport_bytes", device.transport_bytes.value}};
}

DeviceSpec read_device(JsonReader& r) {
  DeviceSpec device;
  device.name = r.string("name");
  device.memory = read_bytes(r, "memory_bytes", 1);
  device.cores = r.optional_integer<int>("cores", 1, kMostCores).value_or(1);
  r.object("peak_flop_per_s", [&device](JsonReader& p) {
    for (const EnumName<DType>& row : kDTypes) {
      if (const auto rate = p.optional_number(row.name, kRate)) {
        device.peak[row.value] = FlopPerSecond{*rate};
      }
    }
  });
  device.memory_bandwidth = read_bandwidth(r, "memory_bandwidth_bytes_per_s");
  const auto seconds = [&r](const char* key) {
    return r.optional_quantity<Seconds>(key, kTime).value_or(Seconds{});
  };
  device.operation_overhead = seconds("operation_overhead_s");
  device.instruction_overhead = seconds("instruction_overhead_s");
  device.step_overhead = seconds("step_overhead_s");
  device.process_bytes = read_optional_bytes(r, "process_bytes");
  device.product_bytes = read_optional_bytes(r, "product_bytes");
  device.transport_bytes = read_optional_bytes(r, "transport_bytes");
  return device;
}

/// What is used must have been measured or stated: a link without bandwidth would move bytes in no
/// time.
void refuse_missing_bandwidth(JsonReader& r, const Cluster& c) {
  const auto check = [&r](bool used, const LinkSpec& link, const char* key) {
    if (!used || link.bandwidth.value > 0.0) return;
    r.require(key).fail("bandwidth_bytes_per_s is 0, but the cluster has ranks on both ends of " +
                        quoted_name(link.name) +
                        "; give the link's bandwidth, or 1 for nodes or devices_per_node");
  };
  check(c.nodes > 1, c.inter_node, "inter_node");
  check(c.devices_per_node > 1 && c.transfers.empty(), c.intra_node, "intra_node");
}

CalibrationFactor read_factor(JsonReader& r, const std::vector<CalibrationFactor>& earlier) {
  CalibrationFactor factor;
  const JsonElement key = r.require("key");
  factor.key = key.string();
  if (!op_code_from_name(factor.key) && factor.key != kOverlappedAllReduce) {
    key.fail_expected("the name of an operation code, or \"" + std::string(kOverlappedAllReduce) +
                      "\"");
  }
  for (const CalibrationFactor& f : earlier) {
    if (f.key == factor.key) key.fail(quoted_name(f.key) + " has a factor already");
  }
  factor.factor = r.number("factor", kFactor);
  factor.relative_spread = r.number("relative_spread", NumberRange::at_least(0));
  factor.samples = r.integer<std::int64_t>("samples", 0);
  return factor;
}

Provenance read_provenance(JsonReader& r) {
  Provenance p;
  p.date = r.string("date");
  p.host = r.string("host");
  p.versions = r.string("versions");
  p.command = r.string("command");
  r.optional_array("fitted_from", [&p](JsonElement e) { p.fitted_from.push_back(e.string()); });
  return p;
}

}  // namespace

Json to_json(const Cluster& c) {
  Json json{{"format", "parplan/machine"}, {"version", 1}, {"name", c.name}};
  json["measured"] = c.measured;
  json["nodes"] = c.nodes;
  json["devices_per_node"] = c.devices_per_node;
  json["cores_per_node"] = c.cores_per_node;
  json["core_sharing_slowdown"] = c.core_sharing_slowdown;
  json["device"] = device_json(c.device);
  json["intra_node"] = link_json(c.intra_node);
  json["inter_node"] = link_json(c.inter_node);
  Json operations = Json::array();
  for (const OperationSample& s : c.operations) operations.push_back(sample_json(s));
  json["operations"] = std::move(operations);
  Json transfers = Json::array();
  for (const TransferSample& t : c.transfers) transfers.push_back(transfer_json(t));
  json["transfers"] = std::move(transfers);
  Json calibration = Json::array();
  for (const CalibrationFactor& f : c.calibration) {
    calibration.push_back({{"key", f.key},
                           {"factor", f.factor},
                           {"relative_spread", f.relative_spread},
                           {"samples", f.samples}});
  }
  json["calibration"] = std::move(calibration);
  json["provenance"] = {{"date", c.provenance.date},
                        {"host", c.provenance.host},
                        {"versions", c.provenance.versions},
                        {"command", c.provenance.command},
                        {"fitted_from", c.provenance.fitted_from}};
  return json;
}

Cluster read_cluster(const JsonDocument& document) {
  JsonReader r(document);
  static_cast<void>(expect_format(r, "parplan/machine", 1, 1));
  Cluster c;
  c.name = r.string("name");
  c.measured = r.optional_boolean("measured").value_or(false);
  c.nodes = r.integer<int>("nodes", 1, kMostRanks);
  c.devices_per_node = r.integer<int>("devices_per_node", 1, kMostRanks);
  if (c.nodes > kMostRanks / c.devices_per_node) {
    r.require("nodes").fail(std::to_string(c.nodes) + " nodes of " +
                            std::to_string(c.devices_per_node) + " devices are more than the " +
                            std::to_string(kMostRanks) + " devices that can be planned for");
  }
  c.cores_per_node = r.optional_integer<int>("cores_per_node", 0, kMostCores).value_or(0);
  c.core_sharing_slowdown =
      r.optional_number("core_sharing_slowdown", NumberRange::between(1, kFactor.max))
          .value_or(1.0);
  r.object("device", [&c](JsonReader& d) { c.device = read_device(d); });
  r.object("intra_node", [&c](JsonReader& l) { c.intra_node = read_link(l); });
  r.object("inter_node", [&c](JsonReader& l) { c.inter_node = read_link(l); });
  // In older files; nothing depends on it.
  static_cast<void>(r.optional_number("overlap_slowdown", NumberRange::at_least(1)));
  r.optional_array("operations", [&c](JsonReader& s) { c.operations.push_back(read_sample(s)); });
  r.optional_array("transfers", [&c](JsonReader& t) { c.transfers.push_back(read_transfer(t)); });
  refuse_missing_bandwidth(r, c);
  r.optional_array("calibration",
                   [&c](JsonReader& f) { c.calibration.push_back(read_factor(f, c.calibration)); });
  r.optional_object("provenance", [&c](JsonReader& p) { c.provenance = read_provenance(p); });
  r.finish();
  return c;
}

Cluster load_cluster(const std::filesystem::path& path) {
  return read_cluster(JsonDocument::load(path));
}

std::string digest_of(const Cluster& cluster) { return digest_of_text(dump(to_json(cluster))); }

}  // namespace parplan
