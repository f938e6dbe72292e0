// Tests that ranks without shared memory compute exactly the bits that one process computes. Each rank has the arenas,
// workers and weights of its own devices, and receives everything else in messages
// (tests/support/message_communicator.h).
#include <cmath>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/runs/plan_product.h"
#include "tests/runtime/runs/rank_runs.h"

extern char** environ;

namespace xrun::runtime {
namespace {

using testing::ModelOptions;
using testing::PlanChoice;
using testing::Prepared;
using testing::RankResult;
using testing::run_one;
using testing::run_rank;
using testing::run_ranks;

// Returns the hard model; in f16 with a first scale of the loss with which some steps, but not all, are skipped.
ModelOptions model_in(PrecisionMode precision) {
  ModelOptions model = testing::hard_model(precision);
  for (int power = 32; precision == PrecisionMode::kMixedF16 && power > 0; --power) {
    model.loss_scale.first = std::exp2(power);
    const Prepared prepared = testing::prepare_for(testing::make_module(model));
    if (run_one(prepared, model, testing::make_program(prepared, {}).value()).scale.skipped_steps < 3) {
      break;
    }
  }
  return model;
}

void expect_bits_of_one(const ModelOptions& model, const std::vector<PlanChoice>& choices) {
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  for (const PlanChoice& choice : choices) {
    const auto program = testing::make_program(prepared, choice);
    ASSERT_TRUE(program.ok()) << choice.text();
    const RankResult one = run_one(prepared, model, *program);
    EXPECT_TRUE(model.precision != PrecisionMode::kMixedF16 || one.scale.skipped_steps > 0);
    for (int ranks = 1; ranks <= std::min(3, choice.devices); ++ranks) {
      for (const RankResult& result : run_ranks(prepared, model, *program, ranks)) {
        ASSERT_TRUE(result.status.ok()) << choice.text() << ": " << result.status.error().message;
        ASSERT_EQ(result.weights, one.weights) << choice.text() << " on " << ranks << " ranks";
        ASSERT_TRUE(result.scale == one.scale) << choice.text() << ": a rank skipped other steps";
      }
    }
  }
}

TEST(Ranks, SomePlansGiveTheBitsOfOneProcess) {
  constexpr uint32_t kSeed = 21;
  constexpr size_t kPlans = 16;  // number of plans, chosen from those that cover every pair of values
  RecordProperty("seed", static_cast<int>(kSeed));
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16, PrecisionMode::kMixedF16}) {
    const ModelOptions model = model_in(precision);
    auto cases = testing::all_cases(model, {precision});
    std::erase_if(cases, [](const testing::Case& one) { return one.choice.devices == 1; });
    std::vector<PlanChoice> choices = testing::choices_in(precision, testing::cover_pairs(cases, 1, kSeed));
    ASSERT_GE(choices.size(), kPlans);
    choices.resize(kPlans);
    expect_bits_of_one(model, choices);
  }
}

TEST(Ranks, TheWholeProductOfPlansGivesTheBitsOfOneProcess) {
  if (std::getenv("XRUN_ALL_PLANS") == nullptr) {
    GTEST_SKIP() << "every legal plan: set XRUN_ALL_PLANS=1 (make test-plans)";
  }
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16, PrecisionMode::kMixedF16}) {
    const ModelOptions model = model_in(precision);
    std::vector<PlanChoice> choices = testing::all_choices(testing::make_module(model));
    std::erase_if(choices, [](const PlanChoice& one) { return one.devices == 1; });
    expect_bits_of_one(model, choices);
  }
}

TEST(Ranks, ARankHoldsOnlyTheWeightsOfItsDevices) {
  const ModelOptions model = testing::hard_model();
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  const auto program =
      testing::make_program(prepared, {.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2, .shards = 2});
  const auto one = run_ranks(prepared, model, *program, 1);
  const auto two = run_ranks(prepared, model, *program, 2);
  EXPECT_LT(two[0].ranges, one[0].ranges);
  EXPECT_LT(two[1].ranges, one[0].ranges);
  EXPECT_EQ(two[0].ranges + two[1].ranges, one[0].ranges) << "no weight of this plan lies on two ranks";
}

const PlanChoice kTwoStages{.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2, .shards = 2};

TEST(Ranks, AnErrorOfOneRankEndsTheStepOfAll) {
  const ModelOptions model = testing::hard_model();
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  const auto program = testing::make_program(prepared, kTwoStages);
  const auto results = run_ranks(prepared, model, *program, 2, {{.fails_in_step = 1}, {}});
  for (const RankResult& result : results) {
    ASSERT_FALSE(result.status.ok());
    EXPECT_EQ(result.steps, 1);
    EXPECT_NE(result.status.error().message.find("not finite"), std::string::npos) << result.status.error().message;
  }
  EXPECT_EQ(results[0].status.error().kind, ErrorKind::kNonFinite) << "the rank itself keeps the whole error";
}

TEST(Ranks, AStopOfOneRankEndsTheRunOfAllAfterTheSameStep) {
  const ModelOptions model = testing::hard_model();
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  const auto program = testing::make_program(prepared, kTwoStages);
  const auto results = run_ranks(prepared, model, *program, 2, {{}, {.stops_in_step = 1}});
  for (const RankResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status.error().message;
    EXPECT_TRUE(result.stops);
    EXPECT_EQ(result.steps, 2);
    EXPECT_EQ(result.weights, results[0].weights);
  }
}

// Starts this binary again as rank 1. The two processes communicate over a socket pair.
struct Child {
  explicit Child(int socket) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, kSocket);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const char* words[] = {"ranks", "--gtest_filter=Ranks.DISABLED_RankOneOfTwoProcesses",
                           "--gtest_also_run_disabled_tests", nullptr};
    XRUN_CHECK(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, const_cast<char**>(words), environ) == 0,
               "no second process");
    posix_spawn_file_actions_destroy(&actions);
    ::close(socket);
  }
  int wait() const {
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
  }
  static constexpr int kSocket = 9;
  pid_t pid = 0;
};

TEST(Ranks, TwoProcessesGiveTheBitsOfOne) {
  const ModelOptions model = testing::hard_model();
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  auto program = testing::make_program(prepared, kTwoStages);
  const std::string expected = run_one(prepared, model, *program).weights;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Child child(ends[1]);
  program->ranks = 2;
  const RankResult result = run_rank(prepared, model, *program, 0, {nullptr, testing::make_socket_channel(ends[0])});
  EXPECT_EQ(child.wait(), 0);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message;
  EXPECT_EQ(result.weights, expected);
}

TEST(Ranks, ARankThatDiesEndsTheStepOfTheOther) {
  const ModelOptions model = testing::hard_model();
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  auto program = testing::make_program(prepared, kTwoStages);
  program->ranks = 2;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ::close(ends[1]);
  const RankResult result = run_rank(prepared, model, *program, 0, {nullptr, testing::make_socket_channel(ends[0])});
  ASSERT_FALSE(result.status.ok());
  EXPECT_NE(result.status.error().message.find("rank 1 is gone"), std::string::npos) << result.status.error().message;
}

// TwoProcessesGiveTheBitsOfOne runs this test in a second process.
TEST(Ranks, DISABLED_RankOneOfTwoProcesses) {
  const ModelOptions model = testing::hard_model();
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  auto program = testing::make_program(prepared, kTwoStages);
  program->ranks = 2;
  const RankResult result =
      run_rank(prepared, model, *program, 1, {testing::make_socket_channel(Child::kSocket), nullptr});
  EXPECT_TRUE(result.status.ok()) << result.status.error().message;
}

}  // namespace
}  // namespace xrun::runtime
