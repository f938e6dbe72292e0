// With `untouched = exact`, class rows follow the training of all classes under any plan and for any reader.
// stopped_runs_test.cpp tests runs that are stopped.
#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/checkpoint/store.h"
#include "runtime/train/evaluation/inference.h"
#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using testing::make_module;
using testing::make_program;
using testing::PlanChoice;
using testing::prepare_for;
using testing::RunsTest;
using testing::SyntheticRows;

class CaughtUpRuns : public RunsTest {
 protected:
  CaughtUpRuns() {
    options_ = {.classes = 1500, .head = true, .cosine = true, .steps = 24};
    options_.arguments = {{"momentum", 0.9}};
    options_.active = {.kind = ActiveSpec::kSample, .amount = 0.2};
    options_.untouched = Untouched::kExact;
    prepared_ = prepare_for(make_module(options_));
  }
};

TEST_F(CaughtUpRuns, EveryPlanGivesTheSameBits) {
  const auto whole = train_with(nullptr, -1);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  for (const PlanChoice& choice :
       {PlanChoice{.devices = 2, .threads = 3, .shards = 2},
        PlanChoice{.devices = 2, .threads = 2, .stages = 2, .micro_batches = 3, .shards = 3},
        PlanChoice{.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3}}) {
    choice_ = choice;
    const auto other = train_with(nullptr, -1);
    ASSERT_TRUE(other.ok()) << choice.text() << ": " << other.error().message;
    EXPECT_EQ(other->weights, whole->weights) << choice.text();
    EXPECT_EQ(other->loss, whole->loss) << choice.text();
  }
  choice_ = {};
  options_.untouched = Untouched::kAsIs;
  prepared_ = prepare_for(make_module(options_));
  const auto as_is = train_with(nullptr, -1);
  ASSERT_TRUE(as_is.ok());
  EXPECT_NE(as_is->weights, whole->weights) << "rows did not catch up";
}

class CaughtUpFormats : public CaughtUpRuns, public ::testing::WithParamInterface<RowFormat> {};

INSTANTIATE_TEST_SUITE_P(Weights, CaughtUpFormats,
                         ::testing::Values(RowFormat::kF32, RowFormat::kBf16, RowFormat::kFp8),
                         [](const auto& param) { return std::string(name_of(param.param)); });

// Compares the measurements during the run with those from the checkpoint, which are made without the learning
// rates.
TEST_P(CaughtUpFormats, EveryReaderHasTheRowsThatTheNextStepWouldUse) {
  options_.weights = GetParam();
  prepared_ = prepare_for(make_module(options_));
  const std::string directory = (fs::temp_directory_path() / ("xrun_caught_up_" + std::to_string(getpid()))).string();
  fs::remove_all(directory);
  auto store = make_checkpoint_store({.directory = directory, .math_digest = "m", .range_bytes = 64 * 100});
  ASSERT_TRUE(store.ok()) << store.error().message;
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  SyntheticRows val(prepared_.inference.graph, options_, 101);
  const auto outcome = train_on(rows, store->get(), -1, nullptr, &val);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  ASSERT_FALSE(events_.evals.empty());

  const auto program = make_program(prepared_, choice_, false).value();
  const auto devices = make_cpu_devices(program.threads);
  auto session = Session::create(prepared_.inference, program, *devices, {.isa = prepared_.isa});
  ASSERT_TRUE(session.ok()) << session.error().message;
  const auto info = open_checkpoint(directory);
  ASSERT_TRUE(info.ok()) << info.error().message;
  const Status loaded = load_checkpoint(*info, (*session)->state());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  ASSERT_TRUE((*session)->weights_changed().ok());
  SyntheticRows again(prepared_.inference.graph, options_, 101);
  const auto evaluation = evaluate(**session, {&again}, nullptr, nullptr);
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
  ASSERT_EQ(evaluation->metrics.size(), events_.evals.back().metrics.size());
  for (size_t i = 0; i < evaluation->metrics.size(); ++i) {
    EXPECT_EQ(evaluation->metrics[i].value, events_.evals.back().metrics[i].value);
  }
  // The stored rows differ: they are those after the last step that updated them.
  const StateTensor& weight = *(*session)->state().find("id.weight");
  std::vector<float> caught_up(static_cast<size_t>(weight.rows() * weight.row_elements()));
  (*session)->state().read_values(weight, 0, weight.rows(), caught_up.data());
  const auto training = make_program(prepared_, choice_).value();
  auto trained = Session::create(prepared_.module, training, *devices, {.isa = prepared_.isa});
  ASSERT_TRUE(trained.ok());
  ASSERT_TRUE(load_checkpoint(*info, (*trained)->state(), true).ok());
  std::vector<float> stored(caught_up.size());
  (*trained)->state().read_values(*(*trained)->state().find("id.weight"), 0, weight.rows(), stored.data());
  EXPECT_NE(stored, caught_up);
  fs::remove_all(directory);
}

}  // namespace
}  // namespace xrun::runtime
