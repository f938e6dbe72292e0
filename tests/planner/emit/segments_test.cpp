// The last backward pass of the first stage, cut into segments after which buckets of gradients are sent.
#include <algorithm>
#include <gmock/gmock.h>

#include "planner/cost/durations.h"
#include "planner/cost/simulate.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

constexpr CaseOptions kCut{.bucket = 1, .early_buckets = true};

std::vector<const Instruction*> backward_of(const Program& program, int stage, int replica, int micro_batch) {
  std::vector<const Instruction*> list;
  for (const Instruction& one : program.instructions) {
    if (one.kind == Kind::kBackward && one.stage == stage && one.replica == replica && one.micro_batch == micro_batch) {
      list.push_back(&one);
    }
  }
  return list;
}

bool sends_slices(const Program& program, const Instruction& one) {
  return one.kind == Kind::kReduceScatter && one.head < 0 && one.stage == 0 &&
         program.buffer(one.operands[0].buffer).purpose == Purpose::kGradient;
}

TEST(Segments, OnlyTheLastBackwardPassOfTheFirstStageIsCut) {
  const Case made = make_case(kCut);
  ASSERT_EQ(complaint(made), "");
  const Program& program = made.program;
  for (int replica = 0; replica < 2; ++replica) {
    EXPECT_EQ(backward_of(program, 0, replica, 2 * replica).size(), 1U);
    EXPECT_EQ(backward_of(program, 1, replica, 2 * replica + 1).size(), 1U);
    const auto segments = backward_of(program, 0, replica, 2 * replica + 1);
    ASSERT_GE(segments.size(), 2U);
    std::vector<NodeId> nodes;
    Seconds time = 0;
    for (const Instruction* segment : segments) {
      nodes.insert(nodes.end(), segment->nodes.begin(), segment->nodes.end());
      time += segment->predicted;
    }
    EXPECT_EQ(nodes, program.stages[0].backward);
    EXPECT_NEAR(time, program.stages[0].backward_time, 1e-12);
  }
}

TEST(Segments, ABucketIsSentBeforeTheNextSegmentEnds) {
  const Case made = make_case(kCut);
  const auto segments = backward_of(made.program, 0, 0, 1);
  const auto first = std::ranges::find_if(made.program.instructions,
                                          [&](const Instruction& one) { return sends_slices(made.program, one); });
  ASSERT_NE(first, made.program.instructions.end());
  EXPECT_GT(first->id, segments[0]->id);
  EXPECT_LT(first->id, segments[1]->id);
  for (const Instruction* later : segments) {
    EXPECT_TRUE(later == segments[0] || !std::ranges::count(first->deps, later->id));
  }
}

TEST(Segments, ASlowNetworkIsBusyDuringTheBackwardPass) {
  const auto makespan = [](bool early) {
    Case made = make_case({.bucket = 1, .early_buckets = early, .nodes = 2, .devices = 4, .shards = 4});
    Machine machine = make_test_machine(4);
    machine.device_nodes = made.program.device_nodes;
    machine.network = {.name = "thin", .rate = 1e8, .latency = 1e-5};
    const KernelFacts facts = make_facts(made.module);
    predict_durations(made.program, made.module, CostModel(facts, machine));
    return simulate(made.program, machine).value().makespan;
  };
  EXPECT_LT(makespan(true), makespan(false));
}

size_t segments_of(CaseOptions options) {
  options.bucket = 1;
  options.early_buckets = true;
  const Case made = make_case(options);
  EXPECT_EQ(complaint(made), "");
  const int last = 4 / options.replicas - 1;
  return backward_of(made.program, 0, 0, last).size();
}

TEST(Segments, APassWhoseValuesWeighMoreThanItsGradientsStaysWhole) {
  EXPECT_GT(segments_of({}), 1U);
  EXPECT_EQ(segments_of({.model = {.layers = 3, .input = 4, .width = 4, .head = true}}), 1U);
}

TEST(Segments, PassesWithoutReplicasAndCompressedGradientsStayWhole) {
  EXPECT_EQ(segments_of({.replicas = 1}), 1U);
  EXPECT_EQ(segments_of({.compress = true}), 1U);
}

// Returns the instructions of stage 0 and replica 0 of a kind, in order.
std::vector<Instruction*> all_of(Program& program, Kind kind) {
  std::vector<Instruction*> list;
  for (Instruction& one : program.instructions) {
    if (one.kind == kind && one.stage == 0 && one.replica == 0 && one.head < 0) {
      list.push_back(&one);
    }
  }
  return list;
}

TEST(Segments, DamagedSegmentsAreFound) {
  // A segment is left out, runs twice, or runs nodes of the next one.
  expect_found(
      "no backward pass", [](Program& p) { all_of(p, Kind::kBackward).back()->kind = Kind::kFoldPartials; }, kCut);
  expect_found(
      "does not run the nodes of its stage",
      [](Program& p) {
        const auto list = all_of(p, Kind::kBackward);
        list[list.size() - 1]->nodes = list[list.size() - 2]->nodes;
      },
      kCut);
  expect_found(
      "does not run the nodes of its stage",
      [](Program& p) {
        const auto list = all_of(p, Kind::kBackward);
        list[list.size() - 2]->nodes.push_back(list[list.size() - 1]->nodes[0]);
      },
      kCut);
  // The partials of a bucket are not summed, or are summed twice.
  expect_operand_found(
      "lack the gradient of `layer1.linear.weight` of replica 0; they hold the complete partial 0",
      [](Program& p) { all_of(p, Kind::kFoldPartials)[0]->operands.pop_back(); }, kCut);
  expect_operand_found(
      "lack the complete partial 0 of the gradient of `layer1.linear.weight`; they hold the gradient of",
      [](Program& p) {
        const auto folds = all_of(p, Kind::kFoldPartials);
        folds[1]->operands.push_back(folds[0]->operands[0]);
      },
      kCut);
  // The partials of a gradient are summed before its segment has added to them.
  expect_operand_found(
      "lack the complete partial 1 of the gradient of `layer0.linear.weight`; they hold zeros",
      [](Program& p) {
        const auto folds = all_of(p, Kind::kFoldPartials);
        folds[0]->operands.push_back(folds[1]->operands.back());
        folds[1]->operands.pop_back();
      },
      kCut);
}

}  // namespace
}  // namespace xrun::planner::testing
