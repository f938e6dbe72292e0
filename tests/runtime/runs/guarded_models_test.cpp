// Every model of models/ that this version can train runs on devices whose memory only their own tasks can touch, with
// two stages and a sharded head. It must give the bits of one device.
#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "lang/frontend.h"
#include "ops/op.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/support/guarded_device.h"

namespace xrun::runtime {
namespace {

using testing::PlanChoice;
using testing::Prepared;

constexpr int64_t kRows = 16;
constexpr int64_t kLabels = 10;  // labels of all models are drawn below this number

// Returns the module of a file, with a batch of four row blocks.
Module load_module(const std::string& name, const std::string& precision) {
  SourceMap sources;
  Diagnostics diagnostics;
  lang::FrontendOptions options{.ops = &ops::registry()};
  options.sets = {{"train.batch", std::to_string(kRows)},
                  {"train.norm_rows", std::to_string(kRows / 4)},
                  {"train.precision", precision}};
  if (name == "synthetic") {
    options.sets.emplace_back("classes", "5000");
  }
  auto file = lang::load(std::string(XRUN_SOURCE_DIR) + "/models/" + name + ".xgraph", sources, diagnostics, options);
  XRUN_CHECK(file.has_value(), name + " does not check");
  return std::move(file->module);
}

// Fills inputs with numbers between -1 and 1, and labels with small class numbers.
void fill(const Graph& graph, const BatchView& slot) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs[i].value).type;
    if (slot.inputs[i] == nullptr) {
      continue;
    }
    if (type.dtype == DType::kF32) {
      const RandomStream random(5, i);
      random.fill_normal(
          0, {reinterpret_cast<float*>(slot.inputs[i]), static_cast<size_t>(type.elements(kRows, kRows / 4))});
      continue;
    }
    for (int64_t row = 0; row < kRows; ++row) {
      reinterpret_cast<int32_t*>(slot.inputs[i])[row] = static_cast<int32_t>(row % kLabels);
    }
  }
}

Result<std::string> train(const Prepared& prepared, const PlanChoice& choice, bool guarded) {
  XRUN_ASSIGN(const planner::Program program, testing::make_program(prepared, choice));
  std::unique_ptr<DeviceSet> devices = make_cpu_devices(program.threads);
  if (guarded) {
    devices = std::make_unique<testing::GuardedDeviceSet>(program.threads);
  }
  XRUN_ASSIGN(auto session,
              Session::create(prepared.module, program, *devices, {.isa = prepared.isa, .check_memory = true}));
  session->state().initialise(1);
  XRUN_TRY(session->weights_changed());
  fill(prepared.module.graph, session->ring()[0]);
  for (int step = 0; step < 2; ++step) {
    XRUN_TRY(session->step(step, 0.001, 0));
  }
  return session->state().weights_digest();
}

class GuardedModels : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(GuardedModels, TrainWithTheSameBitsOnGuardedDevices) {
  const auto& [name, precision] = GetParam();
  const Prepared prepared = testing::prepare_for(load_module(name, precision));
  const Result<std::string> expected = train(prepared, {}, false);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  const Result<std::string> got =
      train(prepared, {.devices = 2, .threads = 3, .stages = 2, .micro_batches = 2, .shards = 2}, true);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(*got, *expected);
}

INSTANTIATE_TEST_SUITE_P(All, GuardedModels,
                         ::testing::Combine(::testing::Values("glyphs", "mnist", "omniglot", "digits", "synthetic"),
                                            ::testing::Values("f32", "mixed(bf16)")),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) +
                                  (std::string(std::get<1>(one.param)) == "f32" ? "_f32" : "_bf16");
                         });

}  // namespace
}  // namespace xrun::runtime
