// Every model of models/ that this version can train runs on devices whose memory only their own tasks can touch, with
// two stages and a sharded head. It must give the bits of one device.
#include <cmath>
#include <gtest/gtest.h>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "tests/runtime/runs/model_files.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/support/guarded_device.h"

namespace xrun::runtime {
namespace {

using testing::fill;
using testing::load_module;
using testing::ModelFile;
using testing::PlanChoice;
using testing::Prepared;

// The file with the settings of these tests.
ModelFile file_of(const std::string& name, const std::string& precision) {
  ModelFile file{.path = "models/" + name + ".xgraph", .precision = precision};
  if (name == "synthetic") {
    file.sets.push_back({"classes", "5000"});
  }
  return file;
}

Result<std::string> train(const Prepared& prepared, const PlanChoice& choice, bool guarded) {
  XRUN_ASSIGN(const planner::Program program, testing::make_program(prepared, choice));
  std::unique_ptr<DeviceSet> devices = make_cpu_devices(program.threads);
  if (guarded) {
    devices = std::make_unique<testing::GuardedDeviceSet>(program.threads);
  }
  XRUN_ASSIGN(auto session,
              Session::create(prepared.module, program, *devices, {.isa = prepared.isa, .check_memory = !guarded}));
  session->state().initialise(1);
  XRUN_TRY(session->weights_changed());
  fill(prepared.module.graph, {}, session->ring()[0]);
  for (int step = 0; step < 2; ++step) {
    XRUN_TRY(session->step(step, 0.001, 0));
  }
  return session->state().weights_digest();
}

// A session of a model on two guarded devices.
struct GuardedSession {
  explicit GuardedSession(const std::string& model)
      : prepared(testing::prepare_for(load_module(file_of(model, "f32")))),
        program(testing::make_program(prepared, {.devices = 2, .threads = 3, .stages = 2, .micro_batches = 2}).value()),
        devices(program.threads),
        session(Session::create(prepared.module, program, devices, {.isa = prepared.isa}).value()) {
    session->state().initialise(1);
    XRUN_CHECK(session->weights_changed().ok(), "no prepared weights");
    fill(prepared.module.graph, {}, session->ring()[0]);
  }
  Prepared prepared;
  planner::Program program;
  testing::GuardedDeviceSet devices;
  std::unique_ptr<Session> session;
};

// Reads all weights before the first instruction that changes any.
class ReadingGuard final : public ChangeGuard {
 public:
  explicit ReadingGuard(Session& session) : session_(session) {}
  void before(const planner::Instruction& instruction, ops::Workers& /*workers*/) override {
    if (instruction.kind == planner::Kind::kUpdate && found.empty()) {
      found = session_.state().weights_digest();
    }
  }
  void before_rows(const planner::Instruction&, std::span<const int32_t>, ops::Workers&) override {}

  std::string found;

 private:
  Session& session_;
};

TEST(GuardedSessions, AGuardReadsTheStateOfTheLastStep) {
  GuardedSession on("mnist");
  Session& session = *on.session;
  ReadingGuard guard(session);
  session.guard(&guard);
  std::string before = session.state().weights_digest();
  for (int step = 0; step < 3; ++step) {
    guard.found.clear();
    ASSERT_TRUE(session.step(step, 0.001, 0).ok());
    EXPECT_EQ(guard.found, before) << "step " << step;
    before = session.state().weights_digest();
    EXPECT_NE(guard.found, before) << "step " << step;
  }
}

TEST(GuardedSessions, AValueThatIsNotFiniteIsReportedAtTheEndOfTheStepWithoutAnUpdate) {
  GuardedSession on("mnist");
  Session& session = *on.session;
  const std::string before = session.state().weights_digest();
  const Graph& graph = on.prepared.module.graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.value(graph.inputs[i].value).type.dtype == DType::kF32 && session.ring()[0].inputs[i] != nullptr) {
      *reinterpret_cast<float*>(session.ring()[0].inputs[i]) = NAN;
    }
  }
  const Status status = session.step(0, 0.001, 0);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "XG0810");
  EXPECT_EQ(session.state().weights_digest(), before);
  fill(graph, {}, session.ring()[0]);
  EXPECT_TRUE(session.step(0, 0.001, 0).ok());
}

TEST(GuardedSessions, NothingIsReadFromDevicesThatAreLost) {
  GuardedSession on("mnist");
  Session& session = *on.session;
  ASSERT_TRUE(session.step(0, 0.001, 0).ok());
  std::vector<float> losses(static_cast<size_t>(on.program.batch));
  const ValueId loss = on.prepared.module.train.loss[0].rows;
  ASSERT_TRUE(session.read_rows(loss, std::as_writable_bytes(std::span(losses))).ok());
  on.devices.guard()->lose();
  const Status read = session.read_rows(loss, std::as_writable_bytes(std::span(losses)));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "a planned loss of the devices");
  EXPECT_FALSE(session.step(1, 0.001, 0).ok());
}

class GuardedModels : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(GuardedModels, TrainWithTheSameBitsOnGuardedDevices) {
  const auto& [name, precision] = GetParam();
  const Prepared prepared = testing::prepare_for(load_module(file_of(name, precision)));
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
