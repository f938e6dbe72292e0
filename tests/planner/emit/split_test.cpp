// Programs of schedules that split backward passes, or put several stages on a device.
#include <algorithm>
#include <gmock/gmock.h>
#include <map>

#include "planner/program/weight_gradients.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

using ::testing::HasSubstr;

std::vector<const Instruction*> backward_of(const Program& program, int stage, int micro_batch) {
  std::vector<const Instruction*> list;
  for (const Instruction& one : program.instructions) {
    if (one.kind == Kind::kBackward && one.stage == stage && one.micro_batch == micro_batch) {
      list.push_back(&one);
    }
  }
  return list;
}

CaseOptions zb_v(uint64_t recompute_seed = 0) {
  return {.model = {.layers = 5, .classes = 900, .head = true, .skips = true},
          .pipeline = PipelineKind::kZbV,
          .stages = 4,
          .recompute_seed = recompute_seed};
}

TEST(WeightGradients, AreNodesWhoseResultsOnlyWeightsNeed) {
  const Case made = make_case();
  const Graph& graph = made.module.graph;
  const std::vector<bool> for_weights = weight_gradient_nodes(graph);
  size_t found = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!for_weights[i]) {
      continue;
    }
    ++found;
    for (const ValueId output : graph.nodes[i].outputs) {
      const bool is_gradient = std::ranges::find(graph.param_grads, output) != graph.param_grads.end();
      const bool is_read = std::ranges::any_of(
          graph.nodes, [&](const Node& node) { return std::ranges::find(node.inputs, output) != node.inputs.end(); });
      EXPECT_TRUE(is_gradient || is_read) << i;
    }
  }
  EXPECT_GT(found, 0U);
  EXPECT_LT(found, graph.nodes.size() / 2);
}

TEST(SplitPasses, ThePartsHaveAllNodesOfThePassOnce) {
  for (const uint64_t recompute_seed : {uint64_t{0}, uint64_t{7}}) {
    const Case made = make_case(zb_v(recompute_seed));
    ASSERT_EQ(complaint(made), "");
    const std::vector<bool> for_weights = weight_gradient_nodes(made.module.graph);
    size_t split = 0;
    for (const Stage& stage : made.program.stages) {
      std::vector<NodeId> expected = stage.recomputed;
      expected.insert(expected.end(), stage.backward.begin(), stage.backward.end());
      for (int m = 0; m < made.program.micro_batches; ++m) {
        const auto parts = backward_of(made.program, stage.index, m);
        ASSERT_GE(parts.size(), 1U);
        std::vector<NodeId> nodes;
        Seconds time = 0;
        for (const Instruction* part : parts) {
          nodes.insert(nodes.end(), part->nodes.begin(), part->nodes.end());
          time += part->predicted;
        }
        EXPECT_EQ(nodes, expected);
        EXPECT_NEAR(time, stage.backward_time, 1e-12);
        if (parts.size() == 2) {
          ++split;
          EXPECT_STREQ(made.program.letter_of(*parts[0]), "I");
          EXPECT_STREQ(made.program.letter_of(*parts[1]), "W");
          for (const NodeId node : parts[1]->nodes) {
            EXPECT_TRUE(for_weights[static_cast<size_t>(node.index)]);
          }
        }
      }
    }
    EXPECT_GT(split, 0U);
  }
}

TEST(SplitPasses, GradientsAreSentBeforeThoseOfWeightsAreComputed) {
  const Case made = make_case(zb_v());
  size_t sent = 0;
  for (const Instruction& one : made.program.instructions) {
    if (one.kind != Kind::kSend || one.stage == 0) {
      continue;
    }
    const auto parts = backward_of(made.program, one.stage, one.micro_batch);
    const BufferId buffer = one.operands[0].buffer;
    if (parts.size() < 2 || std::ranges::find(parts[0]->writes, buffer) == parts[0]->writes.end()) {
      continue;
    }
    ++sent;
    EXPECT_EQ(std::ranges::find(one.deps, parts[1]->id), one.deps.end());
    EXPECT_LT(one.id, parts[1]->id);
  }
  EXPECT_GT(sent, 0U);
}

TEST(SplitPasses, AWeightGradientOutOfOrderIsFound) {
  Case made = make_case(zb_v());
  std::map<std::tuple<int, int>, std::vector<Instruction*>> seconds;  // (stage, replica): second parts, in order
  for (Instruction& one : made.program.instructions) {
    if (one.kind == Kind::kBackward && *made.program.letter_of(one) == 'W') {
      seconds[{one.stage, one.replica}].push_back(&one);
    }
  }
  const auto several = std::ranges::find_if(seconds, [](const auto& entry) { return entry.second.size() > 1; });
  ASSERT_NE(several, seconds.end());
  std::swap(several->second[0]->micro_batch, several->second[1]->micro_batch);
  EXPECT_NE(complaint(made), "");
}

TEST(Chunks, StagesOfADeviceExchangeNoMessages) {
  for (const PipelineKind pipeline : {PipelineKind::kInterleaved, PipelineKind::kZbV}) {
    CaseOptions options = zb_v();
    options.pipeline = pipeline;
    const Case made = make_case(options);
    ASSERT_EQ(complaint(made), "");
    EXPECT_EQ(made.program.stages_of_device(), 2);
    size_t messages = 0;
    for (const Instruction& one : made.program.instructions) {
      if (one.kind == Kind::kSend) {
        ++messages;
        EXPECT_NE(one.device, one.operands[0].index);
      }
    }
    EXPECT_GT(messages, 0U);
  }
}

TEST(Chunks, ADeviceHasStagesOfOneReplica) {
  Case made = make_case(zb_v());
  made.program.stages[3].devices = made.program.stages[0].devices;
  std::ranges::reverse(made.program.stages[3].devices);
  EXPECT_THAT(complaint(made), HasSubstr("has stages of another replica"));
}

}  // namespace
}  // namespace xrun::planner::testing
