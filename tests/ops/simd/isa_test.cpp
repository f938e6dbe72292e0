// Compares results under each instruction set that this processor has. oneDNN reads its limit only once per process, so
// each set runs in a process of its own: this binary again, with XRUN_ISA.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "tests/ops/glyphs_module.h"
#include "tests/ops/op_runner.h"

namespace xrun::ops {
namespace {

constexpr const char* kProbe = "XRUN_ISA_PROBE";

// Returns the loss and weight gradients of the glyph backbone on one small block.
Values probe(PrecisionMode precision) {
  auto module = glyphs_module(8, 10, precision);
  XRUN_CHECK(module.ok(), "the backbone is well formed");
  const Graph& graph = module->graph;
  std::map<ValueId, Values> values;
  for (const NamedValue& input : graph.inputs) {
    const TensorType& type = graph.value(input.value).type;
    const auto n = static_cast<size_t>(type.elements(8, 8));
    // Every label is class 0, whose bits are the same in f32 and i32.
    values[input.value] = input.name == "label" ? Values(n, 0.0) : random_values(n, 0, 1, 1);
  }
  for (const Parameter& parameter : graph.params) {
    const TensorType& type = graph.value(parameter.value).type;
    const auto n = static_cast<size_t>(type.row_elements());
    const double spread =
        parameter.init.kind == Init::kHeNormal ? std::sqrt(6.0 / static_cast<double>(parameter.init.fan_in)) : 0;
    values[parameter.value] = random_values(n, parameter.init.value - spread, parameter.init.value + spread,
                                            2 + static_cast<uint64_t>(parameter.value.index));
  }
  const Status status = run_graph(
      graph, {.kernel = {.norm_rows = 8, .training = true, .deterministic = true, .isa = detect_isa()}}, values);
  XRUN_CHECK(status.ok(), "the backbone runs");
  Values all = values.at(graph.loss[0].rows);
  for (const ValueId grad : graph.param_grads) {
    if (grad.valid()) {
      all.push_back(norm(values.at(grad)));
    }
  }
  return all;
}

TEST(IsaProbe, WritesItsResultsWhenAsked) {
  const char* path = std::getenv(kProbe);
  if (path == nullptr) {
    GTEST_SKIP() << "run by Isa.* in a process of its own";
  }
  std::ofstream file(path);
  file.precision(17);
  file << name_of(detect_isa()) << '\n';
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    for (const double v : probe(precision)) {
      file << v << ' ';
    }
    file << '\n';
  }
}

struct Outcome {
  std::string isa;
  std::array<Values, 2> values;
};

Outcome run_limited(Isa isa) {
  const std::filesystem::path path =
      std::filesystem::path(XRUN_BINARY_DIR) / ("isa_probe_" + std::string(name_of(isa)) + ".txt");
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "XRUN_ISA=" + std::string(name_of(isa)) + " " + kProbe + "='" + path.string() + "' '" +
                              self + "' --gtest_filter=IsaProbe.* >/dev/null 2>&1";
  Outcome outcome;
  if (std::system(command.c_str()) != 0) {
    return outcome;
  }
  std::ifstream file(path);
  std::getline(file, outcome.isa);
  for (Values& values : outcome.values) {
    std::string line;
    std::getline(file, line);
    std::istringstream words(line);
    for (double v; words >> v;) {
      values.push_back(v);
    }
  }
  std::filesystem::remove(path);
  return outcome;
}

TEST(Isa, EveryInstructionSetUnderXrunIsaGivesTheSameWithinTolerance) {
  const Outcome first = run_limited(Isa::kAvx2);
  ASSERT_EQ(first.isa, "avx2");
  ASSERT_FALSE(first.values[0].empty());
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    const Outcome other = run_limited(isa);
    ASSERT_FALSE(other.values[0].empty()) << name_of(isa);
    if (other.isa != name_of(isa)) {
      continue;  // this processor lacks the instruction set
    }
    EXPECT_LT(relative_distance(other.values[0], first.values[0]), 1e-4) << name_of(isa);
    EXPECT_LT(relative_distance(other.values[1], first.values[1]), 2e-2) << name_of(isa);
  }
}

TEST(Isa, NamesAreReadBack) {
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    EXPECT_EQ(parse_isa(name_of(isa)), isa);
  }
  EXPECT_FALSE(parse_isa("sse9").has_value());
  EXPECT_FALSE(has_native_bf16(Isa::kAvx512));
  EXPECT_TRUE(has_native_bf16(Isa::kAmx));
}

}  // namespace
}  // namespace xrun::ops
