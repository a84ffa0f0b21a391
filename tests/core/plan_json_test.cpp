#include "sim/core/plan_json.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "sim/core/cluster_json.hpp"
#include "sim/core/error.hpp"
#include "sim/core/json_writer.hpp"
#include "sim/core/model_presets.hpp"
#include "tests/catch2_compat.hpp"

using namespace parplan;

namespace {

Plan sample_plan(const char* model) {
  Plan plan;
  plan.model = *make_preset(model);
  plan.workload.global_batch = 16;
  for (const Value& v : plan.model.values) {
    if (v.positions == Positions::kSequence) plan.workload.sequence = 8;
    if (v.positions == Positions::kSource) plan.workload.source_sequence = 6;
  }
  plan.workload.optimizer.kind = OptimizerKind::kAdamW;
  plan.workload.optimizer.weight_decay = 0.1;
  plan.layout = place_layers(plan.model, plan.workload, parse_layout("dp=2,pp=2,microbatches=4"));
  plan.cluster_name = "laptop";
  plan.cluster_digest = "0123456789abcdef";
  plan.expectation = Expectation{Seconds{0.1}, Bytes{123456789}};
  return plan;
}

std::string read_error(const std::string& text) {
  try {
    read_plan(JsonDocument("plan.json", text));
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a plan of every preset survives its file", "[core]") {
  for (const ModelPreset& preset : model_presets()) {
    INFO(preset.name);
    const Plan plan = sample_plan(std::string(preset.name).c_str());
    const std::string text = dump(to_json(plan));
    CHECK(read_plan(JsonDocument("plan.json", text)) == plan);
  }
}

TEST_CASE("a plan keeps how many ids its data had, or that it does not know", "[core]") {
  Plan plan = sample_plan("gpt2-tiny");
  plan.workload.data.kind = DataKind::kTokenFile;
  plan.workload.data.path = "ids.bin";
  plan.workload.data.samples = DataSource{}.samples;
  CHECK(dump(to_json(plan)).find("\"tokens\": 600") == std::string::npos);
  CHECK(read_plan(JsonDocument("plan.json", dump(to_json(plan)))) == plan);
  plan.workload.data.tokens = 600;
  const std::string text = dump(to_json(plan));
  CHECK(text.find("\"tokens\": 600") != std::string::npos);
  CHECK(read_plan(JsonDocument("plan.json", text)) == plan);
  CHECK(read_error(replaced(text, "\"tokens\": 600", "\"tokens\": 0")).find("tokens") !=
        std::string::npos);
}

TEST_CASE("a plan keeps the largest gradient norm, if it has one", "[core]") {
  Plan plan = sample_plan("seed-mlp");
  CHECK(dump(to_json(plan)).find("max_gradient_norm") == std::string::npos);
  plan.workload.optimizer.max_gradient_norm = 0.25;
  const std::string text = dump(to_json(plan));
  CHECK(read_plan(JsonDocument("plan.json", text)) == plan);
  CHECK_THAT(read_error(replaced(text, "\"max_gradient_norm\": 0.25", "\"max_gradient_norm\": 0")),
             ContainsSubstring("expected a number > 0"));
}

TEST_CASE("a plan in float16 keeps its loss scaling; no other precision has one", "[core]") {
  Plan plan = sample_plan("seed-mlp");
  plan.workload.precision = DType::kBFloat16;
  const std::string without = dump(to_json(plan));
  CHECK(read_plan(JsonDocument("plan.json", without)) == plan);
  CHECK(without.find("loss_scaling") == std::string::npos);
  plan.workload.precision = DType::kFloat16;
  plan.workload.loss_scaling = {1024.0, 0};
  const std::string text = dump(to_json(plan));
  CHECK(read_plan(JsonDocument("plan.json", text)) == plan);
  CHECK_THAT(read_error(replaced(text, "\"initial\": 1024.0", "\"initial\": -1")),
             ContainsSubstring("$.workload.loss_scaling.initial: expected a number > 0"));
  CHECK_THAT(read_error(replaced(text, "\"float16\"", "\"bfloat16\"")),
             ContainsSubstring("unknown key 'loss_scaling'"));
}

TEST_CASE("a plan keeps the schedule of its learning rate, and only what it uses", "[core]") {
  Plan plan = sample_plan("seed-mlp");
  CHECK(dump(to_json(plan)).find("warmup_steps") == std::string::npos);
  plan.workload.optimizer.schedule = {Decay::kConstant, 5};
  const std::string constant = dump(to_json(plan));
  CHECK(read_plan(JsonDocument("plan.json", constant)) == plan);
  CHECK(constant.find("decay_steps") == std::string::npos);
  plan.workload.optimizer.schedule = {Decay::kCosine, 5, 100, 1e-4};
  const std::string text = dump(to_json(plan));
  CHECK(read_plan(JsonDocument("plan.json", text)) == plan);
  CHECK_THAT(read_error(replaced(text, "\"decay_steps\": 100", "\"decay_steps\": 5")),
             ContainsSubstring("must be later than the last step of its warm-up, 5"));
  CHECK_THAT(read_error(replaced(text, "\"cosine\"", "\"constant\"")),
             ContainsSubstring("unknown key 'decay_steps' at $.workload.optimizer.schedule"));
}

TEST_CASE("a plan's digest ignores what was expected of it and sees everything else", "[core]") {
  const Plan plan = sample_plan("gpt2-tiny");
  Plan other = plan;
  other.expectation.reset();
  other.cluster_name = "elsewhere";
  CHECK(digest_of(other) == digest_of(plan));
  other.workload.seed = 2;
  CHECK(digest_of(other) != digest_of(plan));
}

TEST_CASE("nothing is expected of a plan that was edited since", "[core]") {
  const std::string text = dump(to_json(sample_plan("seed-mlp")));
  REQUIRE(read_plan(JsonDocument("plan.json", text)).expectation.has_value());
  const std::string edited = replaced(text, "\"seed\": 1", "\"seed\": 2");
  CHECK_FALSE(read_plan(JsonDocument("plan.json", edited)).expectation.has_value());
}

TEST_CASE("a damaged plan file is refused with file, line and path", "[core]") {
  const std::string text = dump(to_json(sample_plan("seed-mlp")));
  CHECK(read_error(text) == "accepted");
  CHECK(read_error(replaced(text, "\"dp\": 2", "\"dp\": \"two\""))
            .find("$.layout.dp: expected an integer between 1 and 1048576, found \"two\"") !=
        std::string::npos);
  CHECK(read_error(replaced(text, "\"dp\"", "\"dpp\"")).find("plan.json:") == 0);
  CHECK(read_error(replaced(text, "\"kind\": \"linear\"", "\"kind\": \"liner\""))
            .find("unknown op kind") != std::string::npos);
  CHECK(read_error(replaced(text, "\"global_batch\": 16", "\"global_batch\": 15"))
            .find("does not divide by dp=2") != std::string::npos);
  CHECK(read_error(replaced(text, "\"rows\": 256", "\"rows\": 255")).find("256 x 784") !=
        std::string::npos);
  for (std::size_t cut = 0; cut < text.size(); cut += 97) {
    CHECK(read_error(text.substr(0, cut)) != "accepted");
  }
}

TEST_CASE("a name that is declared twice is refused, whatever it names", "[core]") {
  const Plan plan = sample_plan("seed-mlp");
  const auto error_of = [&plan](const std::string& list, const char* first, const char* second) {
    nlohmann::ordered_json json = to_json(plan);
    nlohmann::ordered_json& entries = json["model"][list];
    const nlohmann::ordered_json::json_pointer from(first);
    const nlohmann::ordered_json::json_pointer to(second);
    entries[to] = entries[from];
    return read_error(dump(json));
  };
  CHECK_THAT(error_of("values", "/0/name", "/1/name"), ContainsSubstring("is declared twice"));
  CHECK_THAT(error_of("parameters", "/0/name", "/1/name"), ContainsSubstring("is declared twice"));
  CHECK_THAT(error_of("layers", "/0/name", "/1/name"),
             ContainsSubstring("$.model.layers[1].name: the layer '"));
  CHECK_THAT(error_of("layers", "/1/ops/0/name", "/1/ops/1/name"),
             ContainsSubstring("is declared twice in its layer"));
}

TEST_CASE("a machine file survives a round trip and names what is wrong in it", "[core]") {
  Cluster c;
  c.name = "laptop";
  c.measured = true;
  c.devices_per_node = 2;
  c.cores_per_node = 2;
  c.core_sharing_slowdown = 1.5;
  c.device.name = "core";
  c.device.memory = Bytes{std::int64_t{8} << 30};
  c.device.peak[DType::kFloat32] = FlopPerSecond{2.5e11};
  c.device.memory_bandwidth = BytesPerSecond{1e10};
  c.operations.push_back({OpCode::kLinearForward,
                          DType::kFloat32,
                          {.rows = 4096, .columns = 512, .inner = 512},
                          {},
                          2,
                          Bytes{123456},
                          Seconds{0.0087},
                          0.02});
  c.operations.push_back({OpCode::kActivationForward,
                          DType::kFloat32,
                          {.rows = 4096, .columns = 2048},
                          {.dropout = true, .function = Activation::kGeluTanh},
                          1,
                          Bytes{0},
                          Seconds{0.001},
                          0.0});
  c.transfers.push_back({CollectiveKind::kAllReduce, 2, Bytes{1 << 20}, Seconds{1e-4},
                         Seconds{9e-5}, Seconds{}, 0.1});
  c.calibration.push_back({"linear_forward", 1.25, 0.1, 12});
  c.provenance = {"2026-01-01T00:00:00Z", "host", "oneDNN 2.6.3", "parplan profile", {"a.json"}};
  c.device.process_bytes = Bytes{12'000'000};
  c.device.product_bytes = Bytes{70'000};
  c.device.transport_bytes = Bytes{10'000'000};
  const std::string text = dump(to_json(c));
  CHECK(read_cluster(JsonDocument("machine.json", text)) == c);
  // Older files have a key more, on which nothing depended.
  const std::string older =
      replaced(text, "\"cores_per_node\": 2", "\"cores_per_node\": 2, \"overlap_slowdown\": 1.5");
  CHECK(read_cluster(JsonDocument("machine.json", older)) == c);
  CHECK_THROWS_AS(read_cluster(JsonDocument("m.json", replaced(text, "1.25", "-1.25"))),
                  InputError);
  CHECK_THROWS_AS(read_cluster(JsonDocument("m.json", replaced(text, "machine", "plan"))),
                  InputError);
}

TEST_CASE("lengths that the model has no positions for are refused", "[core]") {
  const std::string decoder = dump(to_json(sample_plan("gpt2-tiny")));
  CHECK(read_error(replaced(decoder, "\"source_sequence\": 1", "\"source_sequence\": 6")) ==
        "plan.json:16: $.workload.source_sequence: expected 1, as the model has no such positions, "
        "found 6");
  const std::string perceptron = dump(to_json(sample_plan("seed-mlp")));
  CHECK_THAT(read_error(replaced(perceptron, "\"sequence\": 1", "\"sequence\": 8")),
             ContainsSubstring("$.workload.sequence: expected 1"));
}

TEST_CASE("a plan names the machine file it was made for by a whole digest", "[core]") {
  const std::string text = dump(to_json(sample_plan("gpt2-tiny")));
  for (const char* digest : {"", "0123456789abcde", "0123456789abcdeg", "0123456789ABCDEF"}) {
    CHECK_THAT(read_error(replaced(text, "0123456789abcdef", digest)),
               ContainsSubstring("$.cluster.digest: expected 16 hexadecimal digits"));
  }
}
