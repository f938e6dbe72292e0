// Ranks that share no memory give the bits of one process: each has the arenas, the workers and the weights of its own
// devices, and everything else goes as messages (tests/support/message_communicator.h).
#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits>
#include <spawn.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session.h"
#include "runtime/train/train_state.h"
#include "tests/runtime/plan_product.h"
#include "tests/support/message_communicator.h"

extern char** environ;

namespace xrun::runtime {
namespace {

using planner::Program;
using testing::Channel;
using testing::MessageCommunicator;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::Prepared;

constexpr int kSteps = 3;

using Channels = std::vector<std::shared_ptr<Channel>>;  // by rank, none for the own one

// What one rank ends with: the weights of all ranks, and the ranges that it has itself.
struct RankResult {
  Status status;
  int steps = 0;
  std::string weights;
  size_t ranges = 0;
  bool stops = false;
};

struct RankOptions {
  int fails_in_step = -1;  // this rank's data are not finite then
  int stops_in_step = -1;  // this rank is asked to stop then
};

RankResult run_rank(const Prepared& prepared, const ModelOptions& model, Program program, int rank,
                    const Channels& channels, const RankOptions& options = {}) {
  RankResult result;
  const auto run = [&]() -> Status {
    std::vector<int> threads;
    int first = program.devices;
    for (int d = 0; d < program.devices; ++d) {
      if (program.rank_of(d) == rank) {
        threads.push_back(program.threads[static_cast<size_t>(d)]);
        first = std::min(first, d);
      }
    }
    const auto devices = make_cpu_devices(threads, {}, first);
    MessageCommunicator* communicator = nullptr;
    SessionOptions session_options{.isa = prepared.isa, .check_memory = true, .rank = rank};
    session_options.communicator = [&](std::span<const Exchange> exchanges) {
      auto made = std::make_unique<MessageCommunicator>(
          rank, [&](int device) { return program.rank_of(device); }, exchanges, channels);
      communicator = made.get();
      return made;
    };
    XRUN_ASSIGN(auto session, Session::create(prepared.module, program, *devices, session_options));
    session->state().initialise(prepared.module.train.seed);
    XRUN_TRY(session->weights_changed());
    testing::SyntheticRows rows(prepared.module.graph, model, 1000);
    XRUN_TRY(rows.start(0, session->ring()));
    std::atomic<bool> stop{false};
    for (; result.steps < kSteps && !result.stops; ++result.steps) {
      const int step = result.steps;
      XRUN_TRY(rows.wait(step));
      const int slot = step % static_cast<int>(session->ring().size());
      if (step == options.fails_in_step) {
        auto* const data = reinterpret_cast<float*>(session->ring()[static_cast<size_t>(slot)].inputs[0]);
        std::fill_n(data, 8, std::numeric_limits<float>::infinity());
      }
      stop = step == options.stops_in_step;
      XRUN_TRY(session->step(step, model.rate, slot, &stop));
      result.stops = session->stops();
    }
    const std::vector<RangeDigest> own = session->state().range_digests();
    result.ranges = own.size();
    std::string text;
    for (const RangeDigest& one : own) {
      text += std::to_string(one.range) + " " + one.digest + " ";
    }
    std::vector<RangeDigest> all;
    for (const std::string& said : communicator->gather(text)) {
      std::istringstream in(said);
      for (RangeDigest one; in >> one.range >> one.digest;) {
        all.push_back(one);
      }
    }
    result.weights = digest_of(all);
    return {};
  };
  result.status = run();
  return result;
}

// Connects all pairs of ranks; [rank] has its channels.
std::vector<Channels> connect(int ranks) {
  std::vector<Channels> channels(static_cast<size_t>(ranks), Channels(static_cast<size_t>(ranks)));
  for (size_t a = 0; a < channels.size(); ++a) {
    for (size_t b = a + 1; b < channels.size(); ++b) {
      std::tie(channels[a][b], channels[b][a]) = testing::make_queue_channel();
    }
  }
  return channels;
}

// A thread for each rank.
std::vector<RankResult> run_ranks(const Prepared& prepared, const ModelOptions& model, Program program, int ranks,
                                  const std::vector<RankOptions>& options = {}) {
  program.ranks = ranks;
  const std::vector<Channels> channels = connect(ranks);
  std::vector<RankResult> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < results.size(); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = run_rank(prepared, model, program, static_cast<int>(rank), channels[rank],
                               rank < options.size() ? options[rank] : RankOptions{});
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return results;
}

// The same plan in one process.
std::string weights_of_one(const Prepared& prepared, const ModelOptions& model, const Program& program) {
  const auto devices = make_cpu_devices(program.threads);
  auto session = Session::create(prepared.module, program, *devices, {.isa = prepared.isa});
  XRUN_CHECK(session.ok(), "no session");
  (*session)->state().initialise(prepared.module.train.seed);
  XRUN_CHECK((*session)->weights_changed().ok(), "weights cannot be prepared");
  testing::SyntheticRows rows(prepared.module.graph, model, 1000);
  XRUN_CHECK(rows.start(0, (*session)->ring()).ok(), "no data");
  for (int step = 0; step < kSteps; ++step) {
    XRUN_CHECK(rows.wait(step).ok(), "no data");
    const Status status = (*session)->step(step, model.rate, step % static_cast<int>((*session)->ring().size()));
    XRUN_CHECK(status.ok(), status.ok() ? "" : status.error().message);
  }
  return (*session)->state().weights_digest();
}

void expect_bits_of_one(const ModelOptions& model, const std::vector<PlanChoice>& choices) {
  const Prepared prepared = testing::prepare_for(testing::make_module(model));
  for (const PlanChoice& choice : choices) {
    const auto program = testing::make_program(prepared, choice);
    ASSERT_TRUE(program.ok()) << choice.text();
    const std::string expected = weights_of_one(prepared, model, *program);
    for (int ranks = 1; ranks <= std::min(3, choice.devices); ++ranks) {
      for (const RankResult& result : run_ranks(prepared, model, *program, ranks)) {
        ASSERT_TRUE(result.status.ok()) << choice.text() << ": " << result.status.error().message;
        ASSERT_EQ(result.weights, expected) << choice.text() << " on " << ranks << " ranks";
      }
    }
  }
}

TEST(Ranks, SomePlansGiveTheBitsOfOneProcess) {
  constexpr uint32_t kSeed = 21;
  constexpr size_t kPlans = 16;  // of those that cover every pair of values
  RecordProperty("seed", static_cast<int>(kSeed));
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    const ModelOptions model = testing::hard_model(precision);
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
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    const ModelOptions model = testing::hard_model(precision);
    std::vector<PlanChoice> choices = testing::all_choices(testing::make_module(model));
    std::erase_if(choices, [](const PlanChoice& one) { return one.devices == 1; });
    expect_bits_of_one(model, choices);
  }
}

TEST(Ranks, ARankHasTheWeightsOfItsDevicesAlone) {
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

TEST(Ranks, AStopOfOneRankEndsTheRunOfAllWithTheSameStep) {
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

// Two processes over a socket pair: this binary once more, as rank 1.
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
  const std::string expected = weights_of_one(prepared, model, *program);
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

// Run by TwoProcessesGiveTheBitsOfOne.
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
