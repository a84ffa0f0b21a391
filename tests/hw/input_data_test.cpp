#include "hw/executor/input_data.hpp"

#include <array>
#include <filesystem>
#include <vector>

#include "hw/executor/token_file.hpp"
#include "hw/random.hpp"
#include "sim/core/error.hpp"
#include "sim/core/model_builder.hpp"
#include "sim/core/resident_memory.hpp"
#include "tests/catch2_compat.hpp"
#include "tests/hw/temporary_file.hpp"

using namespace parplan;
using parplan::hw::check_ids;
using parplan::hw::check_token_data;
using parplan::hw::check_token_ids;
using parplan::hw::InputData;
using parplan::hw::keyed_normal;
using parplan::hw::keyed_u64;
using parplan::hw::TemporaryFile;
using parplan::hw::tensor_key;
using parplan::hw::TokenFile;

namespace {

Model language_model() {
  ModelBuilder b("language-model");
  const ValueId source = b.input("source", ValueRole::kTokens, Positions::kSource);
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("classes", ValueRole::kClasses, Positions::kSequence);
  b.begin_layer("encoder");
  const ValueId memory = b.embedding("embedding", source, 13, 4);
  b.begin_layer("decoder");
  const ValueId x = b.embedding("embedding", tokens, 11, 4);
  const ValueId y =
      b.attention("attention", x, memory, b.linear("value", memory, {4, 4}), {1, 1, 4, false, 0.0});
  b.cross_entropy("loss", b.linear("head", y, {4, 11}), classes);
  return b.finish();
}

Model regression_model() {
  ModelBuilder b("regression");
  const ValueId x = b.input("x", ValueRole::kFeatures, Positions::kOne, 3);
  const ValueId t = b.input("t", ValueRole::kRealTarget, Positions::kOne, 2);
  b.begin_layer("linear");
  b.squared_error("loss", b.linear("linear", x, {3, 2}), t);
  return b.finish();
}

Model token_model() {
  ModelBuilder b("token-model");
  const ValueId tokens = b.input("tokens", ValueRole::kTokens, Positions::kSequence);
  const ValueId classes = b.input("classes", ValueRole::kClasses, Positions::kSequence);
  b.begin_layer("all");
  const ValueId x = b.embedding("embedding", tokens, 100, 4);
  b.cross_entropy("loss", b.linear("head", x, {4, 100}), classes);
  return b.finish();
}

template <class T>
std::vector<T> load(const InputData& data, ValueId value, const std::vector<std::int64_t>& samples,
                    std::size_t row) {
  std::vector<T> out(samples.size() * row);
  data.load(value, samples, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

Workload token_workload(const std::string& path, TokenWidth width) {
  Workload w;
  w.sequence = 4;
  w.data.kind = DataKind::kTokenFile;
  w.data.path = path;
  w.data.width = width;
  return w;
}

}  // namespace

TEST_CASE("synthetic ids are keyed by role, name and element", "[hw]") {
  const Model model = language_model();
  Workload w;
  w.seed = 5;
  w.sequence = 3;
  w.source_sequence = 2;
  const std::array<ValueId, 3> values{ValueId{0}, ValueId{1}, ValueId{2}};
  const InputData data(model, w, values);
  // Two token values, one of them named "tokens": both are keyed by their names.
  const auto source = load<std::int32_t>(data, ValueId{0}, {4, 9}, 2);
  const auto tokens = load<std::int32_t>(data, ValueId{1}, {4}, 3);
  const auto classes = load<std::int32_t>(data, ValueId{2}, {4}, 3);
  const std::uint64_t source_key = tensor_key(5, "source");
  const std::uint64_t key = tensor_key(5, "tokens");
  for (std::uint64_t p = 0; p < 2; ++p) {
    CHECK(source[p] == static_cast<std::int32_t>(keyed_u64(source_key, 4 * 2 + p) % 13));
    CHECK(source[2 + p] == static_cast<std::int32_t>(keyed_u64(source_key, 9 * 2 + p) % 13));
  }
  for (std::uint64_t p = 0; p < 3; ++p) {
    CHECK(tokens[p] == static_cast<std::int32_t>(keyed_u64(key, 4 * 3 + p) % 11));
    CHECK(classes[p] ==
          static_cast<std::int32_t>(keyed_u64(tensor_key(5, "targets"), 4 * 3 + p) % 11));
  }
}

TEST_CASE("synthetic reals are normal numbers keyed by element, kept or not", "[hw]") {
  const Model model = regression_model();
  Workload w;
  w.seed = 6;
  w.precision = DType::kFloat64;
  w.data.samples = 10;
  const std::array<ValueId, 2> values{ValueId{0}, ValueId{1}};
  CHECK(kept_input_bytes(model.value(ValueId{0}), w) == Bytes{10 * 3 * 8});
  const InputData kept(model, w, values);
  const auto x = load<double>(kept, ValueId{0}, {7, 2}, 3);
  const auto t = load<double>(kept, ValueId{1}, {7}, 2);
  for (std::uint64_t i = 0; i < 3; ++i) {
    CHECK(x[i] == keyed_normal(tensor_key(6, "inputs"), 7 * 3 + i));
    CHECK(x[3 + i] == keyed_normal(tensor_key(6, "inputs"), 2 * 3 + i));
  }
  CHECK(t[1] == keyed_normal(tensor_key(6, "targets"), 7 * 2 + 1));

  w.data.samples = kResidentInputLimit.value;  // far too large to keep: drawn when loaded
  CHECK(kept_input_bytes(model.value(ValueId{0}), w) == Bytes{0});
  const InputData drawn(model, w, values);
  CHECK(load<double>(drawn, ValueId{0}, {7, 2}, 3) == x);

  w.precision = DType::kFloat32;
  const auto rounded = load<float>(InputData(model, w, values), ValueId{0}, {7, 2}, 3);
  for (std::size_t i = 0; i < 6; ++i) CHECK(rounded[i] == static_cast<float>(x[i]));
}

TEST_CASE("a token file gives sequences and their successors", "[hw]") {
  std::vector<std::uint16_t> tokens(14);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i * 3);
  const TemporaryFile file(tokens);
  const Model model = token_model();
  const std::array<ValueId, 2> values{ValueId{0}, ValueId{1}};
  const InputData data(model, token_workload(file.path(), TokenWidth::kUint16), values);
  CHECK(data.samples() == 3);  // 3 x 4 tokens and the successor of the last; one is left over
  CHECK(load<std::int32_t>(data, ValueId{0}, {2, 0}, 4) ==
        std::vector<std::int32_t>{24, 27, 30, 33, 0, 3, 6, 9});
  CHECK(load<std::int32_t>(data, ValueId{1}, {2}, 4) == std::vector<std::int32_t>{27, 30, 33, 36});

  const TemporaryFile wide(std::vector<std::uint32_t>{1, 2, 3, 4, 5});
  const InputData wide_data(model, token_workload(wide.path(), TokenWidth::kUint32), values);
  CHECK(wide_data.samples() == 1);
  CHECK(load<std::int32_t>(wide_data, ValueId{1}, {0}, 4) == std::vector<std::int32_t>{2, 3, 4, 5});
}

TEST_CASE("broken token files are refused with what is wrong", "[hw]") {
  const auto open = [](const std::string& path, TokenWidth width) {
    return TokenFile(path, width, 4).samples();
  };
  CHECK_THROWS_WITH(
      open("/nonexistent/tokens.bin", TokenWidth::kUint16),
      ContainsSubstring("/nonexistent/tokens.bin") && ContainsSubstring("No such file"));
  CHECK_THROWS_WITH(open("/tmp", TokenWidth::kUint16), ContainsSubstring("not a regular file"));
  const TemporaryFile odd(std::vector<std::uint16_t>(7));
  CHECK_THROWS_WITH(open(odd.path(), TokenWidth::kUint32),
                    ContainsSubstring("14 bytes, not a multiple of the 4 bytes"));
  const TemporaryFile empty(std::vector<std::uint16_t>{});
  CHECK_THROWS_WITH(open(empty.path(), TokenWidth::kUint16), ContainsSubstring("0 tokens"));
  const TemporaryFile short_by_one(std::vector<std::uint16_t>(4));
  CHECK_THROWS_WITH(open(short_by_one.path(), TokenWidth::kUint16),
                    ContainsSubstring("4 tokens") && ContainsSubstring("need 5"));
}

TEST_CASE("a token outside the vocabulary is named with its position", "[hw]") {
  std::vector<std::uint32_t> tokens(9, 1);
  tokens[6] = 100;  // the vocabulary has 0..99
  const TemporaryFile file(tokens);
  const Model model = token_model();
  const std::array<ValueId, 2> values{ValueId{0}, ValueId{1}};
  const InputData data(model, token_workload(file.path(), TokenWidth::kUint32), values);
  CHECK_NOTHROW(load<std::int32_t>(data, ValueId{0}, {0}, 4));
  CHECK_THROWS_WITH(load<std::int32_t>(data, ValueId{0}, {1}, 4),
                    ContainsSubstring("token 100 at position 6") && ContainsSubstring("of 100") &&
                        ContainsSubstring("--data-width"));
}

TEST_CASE("a file of another length than when the plan was made is refused", "[hw]") {
  const TemporaryFile file(std::vector<std::uint16_t>(100, 7));
  Workload w = token_workload(file.path(), TokenWidth::kUint16);
  w.data.tokens = 100;
  CHECK_NOTHROW(check_token_data(token_model(), w));
  w.data.tokens = 99;
  CHECK_THROWS_WITH(check_token_data(token_model(), w),
                    ContainsSubstring("has 100 tokens, it had 99 when the plan was made"));
}

TEST_CASE("a file that is cut short in use is an error, not the end of the process", "[hw]") {
  const TemporaryFile file(std::vector<std::uint16_t>(10000, 7));
  const TokenFile tokens(file.path(), TokenWidth::kUint16, 4);
  std::array<std::int32_t, 4> out{};
  CHECK_NOTHROW(tokens.read(2000, 0, 100, out));
  std::filesystem::resize_file(file.path(), 10);
  CHECK_THROWS_WITH(
      tokens.read(2000, 0, 100, out),
      ContainsSubstring("cut short") && ContainsSubstring("had 10000 tokens, it has 5"));
}

TEST_CASE("ids are looked at before a run", "[hw]") {
  const auto check = [](const auto& ids, TokenWidth width, std::int64_t vocabulary) {
    const TemporaryFile file(ids);
    check_ids(file.path(), width, vocabulary);
  };
  std::vector<std::uint16_t> narrow((std::size_t{1} << 18) + 5, 99);  // more than one block
  CHECK_NOTHROW(check(narrow, TokenWidth::kUint16, 100));
  narrow.back() = 100;
  CHECK_THROWS_WITH(check(narrow, TokenWidth::kUint16, 100),
                    ContainsSubstring("token 100 at position 262148 is outside"));
  CHECK_THROWS_WITH(check(std::vector<std::uint16_t>{1, 2, 3, 4}, TokenWidth::kUint32, 100),
                    ContainsSubstring("token 131073 at position 0"));  // 1 + 2 * 65536

  std::vector<std::uint32_t> wide(16, 5);
  CHECK_NOTHROW(check(wide, TokenWidth::kUint32, 100));
  CHECK_THROWS_WITH(check(wide, TokenWidth::kUint16, 100),
                    ContainsSubstring("every second position") &&
                        ContainsSubstring("plan with --data-width uint32"));
  CHECK_NOTHROW(check(std::vector<std::uint16_t>(1000), TokenWidth::kUint16, 100));  // only zeros
  wide.back() = 5 + (7U << 16);
  CHECK_NOTHROW(check(wide, TokenWidth::kUint16, 100));

  Workload w = token_workload("/nonexistent", TokenWidth::kUint16);
  CHECK_THROWS_AS(check_token_ids(token_model(), w), InputError);
  w.data.kind = DataKind::kSynthetic;
  CHECK_NOTHROW(check_token_ids(token_model(), w));
}

TEST_CASE("a token file is refused for models that need more than tokens", "[hw]") {
  const TemporaryFile file(std::vector<std::uint16_t>(100));
  const auto open = [&](const Model& model) {
    return InputData(model, token_workload(file.path(), TokenWidth::kUint16), {}).samples();
  };
  CHECK_THROWS_WITH(open(regression_model()), ContainsSubstring("'x' of model 'regression'"));
  CHECK_THROWS_WITH(open(language_model()), ContainsSubstring("cannot give"));
  CHECK(open(token_model()) == 24);
  // The same while planning, which reads no tokens.
  Workload w = token_workload(file.path(), TokenWidth::kUint16);
  CHECK_NOTHROW(check_token_data(token_model(), w));
  CHECK_THROWS_WITH(check_token_data(regression_model(), w), ContainsSubstring("cannot give"));
  w.sequence = 100;
  CHECK_THROWS_WITH(check_token_data(token_model(), w), ContainsSubstring("need 101"));
  w.data.kind = DataKind::kSynthetic;
  CHECK_NOTHROW(check_token_data(regression_model(), w));
}
