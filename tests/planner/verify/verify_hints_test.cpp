// A plan that does not keep a hint of the schedule is refused, with the place of the hint.
#include <gtest/gtest.h>
#include <numeric>

#include "planner/program/run_memory.h"
#include "planner/search/remat.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

const Span kPlace{1, 5, 9};

template <typename T>
Hint<T> hint(T value) {
  return {value, kPlace};
}

// A case with two stages, two replicas, four micro-batches, and three shards over five devices on two nodes.
class VerifyHints : public ::testing::Test {
 protected:
  VerifyHints() : machine_(make_test_machine(5)) { machine_.device_nodes = made_.program.device_nodes; }

  std::string refusal(const std::function<void(ScheduleSpec&)>& ask) {
    Module module = made_.module;
    ask(module.schedule);
    const Status status = verify_hints(made_.program, module, machine_);
    if (status.ok()) {
      return "";
    }
    EXPECT_EQ(status.error().code, "XG0625");
    EXPECT_NE(status.error().help.find("xrun plan"), std::string::npos);
    EXPECT_EQ(status.error().span.begin, kPlace.begin) << status.error().message;
    return status.error().message;
  }

  // The forward node of a stage that is not a part of other nodes' paths.
  std::string last_path(int stage) const {
    return made_.module.graph.node(made_.program.stages[static_cast<size_t>(stage)].forward.back()).path;
  }

  Case made_ = make_case({.nodes = 2});
  Machine machine_;
};

TEST_F(VerifyHints, APlanThatKeepsAllHintsIsAccepted) {
  EXPECT_EQ(refusal([](ScheduleSpec&) {}), "");
  EXPECT_EQ(refusal([&](ScheduleSpec& s) {
              s.stages = hint<int64_t>(2);
              s.replicas = hint<int64_t>(2);
              s.micro_batches = hint<int64_t>(4);
              s.pipeline = hint(PipelineHint{PipelineKind::kGpipe});
              s.overlap = hint(true);
              s.memory_limit = hint(largest_device_of(made_.program));
              s.recompute = hint(RecomputeHint{.mode = RecomputeHint::kNone});
              s.pins = {{.path = last_path(1), .stage = 1, .span = kPlace}};
              s.shards = {{.head = "id", .shards = 3, .granularity = "step", .span = kPlace}};
            }),
            "");
}

TEST_F(VerifyHints, OtherNumbersAreFound) {
  EXPECT_EQ(refusal([](ScheduleSpec& s) { s.stages = hint<int64_t>(3); }),
            "the plan has stages = 2, where the schedule asks for 3");
  EXPECT_EQ(refusal([](ScheduleSpec& s) { s.replicas = hint<int64_t>(1); }),
            "the plan has replicas = 2, where the schedule asks for 1");
  EXPECT_EQ(refusal([](ScheduleSpec& s) { s.micro_batches = hint<int64_t>(8); }),
            "the plan has micro_batches = 4, where the schedule asks for 8");
  EXPECT_EQ(refusal([](ScheduleSpec& s) { s.pipeline = hint(PipelineHint{PipelineKind::kOneFOneB}); }),
            "the plan has another pipeline than the schedule asks for");
  EXPECT_EQ(refusal([](ScheduleSpec& s) { s.overlap = hint(false); }),
            "the plan has overlap = true, where the schedule asks for false");
}

TEST_F(VerifyHints, ADeviceThatNeedsMoreThanItsLimitIsFound) {
  const std::string said =
      refusal([&](ScheduleSpec& s) { s.memory_limit = hint(largest_device_of(made_.program) - 1); });
  EXPECT_NE(said.find("where memory_limit is"), std::string::npos) << said;
}

TEST_F(VerifyHints, LayersOnOtherStagesAreFound) {
  EXPECT_EQ(refusal([&](ScheduleSpec& s) {
              s.pins = {{.path = last_path(0), .stage = 0}, {.path = last_path(1), .stage = 0, .span = kPlace}};
              s.pins[0].span = kPlace;
            }),
            "the plan has `" + last_path(1) + "` on stage 1, where the schedule pins it to stage 0");
}

TEST_F(VerifyHints, OtherLayersThatRunAgainAreFound) {
  const auto asks = [&](RecomputeHint::Mode mode) {
    return refusal([&](ScheduleSpec& s) { s.recompute = hint(RecomputeHint{.mode = mode}); });
  };
  EXPECT_EQ(asks(RecomputeHint::kNone), "");
  EXPECT_NE(asks(RecomputeHint::kAll).find("which does not run again, contrary to the schedule"), std::string::npos);
  made_ = make_case({.recompute_seed = 7, .nodes = 2});
  EXPECT_NE(asks(RecomputeHint::kNone).find("which runs again, contrary to the schedule"), std::string::npos);
  // The layers that run again as the search chooses them for the hint `all`.
  const Chain chain = make_chain(made_.module, CostModel(KernelFacts(), machine_));
  int begin = 0;
  for (Stage& stage : made_.program.stages) {
    const int end = begin + static_cast<int>(stage.forward.size());
    std::vector<int> all(stage.forward.size());
    std::iota(all.begin(), all.end(), begin);
    const std::vector<bool> again = rematerialized(made_.module.graph, chain, begin, end, all);
    stage.recomputed.clear();
    for (int at = begin; at < end; ++at) {
      if (again[static_cast<size_t>(at)]) {
        stage.recomputed.push_back(chain.nodes[static_cast<size_t>(at)]);
      }
    }
    begin = end;
  }
  EXPECT_EQ(asks(RecomputeHint::kAll), "");
}

TEST_F(VerifyHints, OtherShardsAndPassesAreFound) {
  const auto asks = [&](const ShardHint& wanted) {
    return refusal([&](ScheduleSpec& s) {
      s.shards = {wanted};
      s.shards[0].span = kPlace;
    });
  };
  EXPECT_EQ(asks({.head = "id"}), "");
  EXPECT_EQ(asks({.head = "id", .shards = 2}), "the plan has 3 shards of `id`, where the schedule asks for 2");
  EXPECT_EQ(asks({.head = "id", .by_node = true}), "the plan has 3 shards of `id`, where the schedule asks for 2");
  made_.program.heads[0].shards[1].device = 3;
  EXPECT_EQ(asks({.head = "id", .shards = 3}),
            "the plan has shard 1 of `id` on device 3, where the schedule does not place it");
  const std::string passes = asks({.head = "id", .granularity = "micro_batch"});
  EXPECT_NE(passes.find("where the schedule asks for passes of a micro_batch"), std::string::npos) << passes;
}

}  // namespace
}  // namespace xrun::planner::testing
