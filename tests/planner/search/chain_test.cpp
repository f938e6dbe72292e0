#include "planner/search/chain.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "planner/search/heads.h"
#include "planner/search/mesh.h"
#include "planner/search/remat.h"
#include "tests/planner/test_graphs.h"

namespace xrun::planner {
namespace {

const Machine kMachine{.name = "2 x cpu", .cores = 2, .devices = 2, .threads = 2, .memory = kGiB};

struct Made {
  Module module;
  KernelFacts facts;
  Chain chain;
};

Made make(const testing::ModelOptions& options) {
  Made made{testing::prepare_training(testing::make_module(options)), {}, {}};
  made.facts = testing::make_facts(made.module);
  made.chain = make_chain(made.module, CostModel(made.facts, kMachine));
  return made;
}

TEST(Chain, NodesOfAHeadAreNotPartOfTheChain) {
  const Made made = make({.layers = 2, .head = true});
  EXPECT_EQ(made.chain.head_nodes.size(), 3U);  // classifier, loss, accuracy
  EXPECT_EQ(made.chain.nodes.size(), 7U);
  EXPECT_EQ(made.chain.last_cut, 6);
  for (const NodeId node : made.chain.head_nodes) {
    EXPECT_EQ(made.chain.position[static_cast<size_t>(node.index)], -1);
  }
}

// The last node of the stages reads the running mean of the first `bn` again.
TEST(Chain, NoCutLiesBetweenReadersOfAStateThatAStepUpdates) {
  Made made = make({.layers = 2, .head = true});
  EXPECT_EQ(made.chain.most_stages(), 7);
  EXPECT_EQ(std::ranges::count(made.chain.joined, true), 0);
  Graph& graph = made.module.graph;
  const auto bn = std::ranges::find_if(made.chain.nodes, [&](NodeId id) { return graph.node(id).op->folds_states; });
  ASSERT_NE(bn, made.chain.nodes.end());
  const auto at = bn - made.chain.nodes.begin();
  graph.node(made.chain.nodes.back()).inputs.push_back(graph.node(*bn).inputs[3]);
  const Chain chain = make_chain(made.module, CostModel(made.facts, kMachine));
  for (int i = 0; i < chain.size(); ++i) {
    EXPECT_EQ(chain.joined[static_cast<size_t>(i)], i > at) << i;
  }
  EXPECT_EQ(chain.most_stages(), at + 1);
}

TEST(Chain, DenseLossAndMetricsArePartOfTheChain) {
  const Made made = make({.layers = 1});
  EXPECT_TRUE(made.chain.head_nodes.empty());
  EXPECT_EQ(made.module.graph.node(made.chain.nodes.back()).path, "accuracy");
}

TEST(Chain, EveryBackwardNodeFollowsItsForwardNode) {
  const Made made = make({.layers = 3, .skips = true});
  size_t count = 0;
  for (size_t p = 0; p < made.chain.backward.size(); ++p) {
    count += made.chain.backward[p].size();
    for (const NodeId node : made.chain.backward[p]) {
      EXPECT_EQ(made.module.graph.node(node).forward, made.chain.nodes[p]);
    }
  }
  EXPECT_EQ(count + made.chain.nodes.size(), made.module.graph.nodes.size());
}

// Compares with a brute-force count of the values that cross each cut.
TEST(Chain, BoundariesCountEachCrossingValueOnce) {
  const Made made = make({.layers = 3, .skips = true, .random = true});
  const Graph& graph = made.module.graph;
  const int64_t g = made.module.train.norm_rows;
  for (int cut = 0; cut <= made.chain.size(); ++cut) {
    Bytes bytes = 0;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      const NodeId producer = graph.values[v].producer;
      if (!producer.valid() || graph.node(producer).phase != Phase::kForward) {
        continue;
      }
      bool behind = false;
      for (size_t n = 0; n < graph.nodes.size(); ++n) {
        const auto& inputs = graph.nodes[n].inputs;
        behind = behind ||
                 (made.chain.position[n] >= cut && std::find(inputs.begin(), inputs.end(), ValueId(v)) != inputs.end());
      }
      const bool before = made.chain.position[static_cast<size_t>(producer.index)] < cut;
      bytes += before && behind ? graph.values[v].type.bytes(g, g) : 0;
    }
    EXPECT_EQ(made.chain.boundary[static_cast<size_t>(cut)], bytes) << cut;
  }
}

TEST(Remat, OnlyValuesThatTheBackwardPassNeedsAreRecomputed) {
  const Made made = make({.layers = 1, .norm = false});
  const int n = made.chain.size();
  // stem -> linear -> relu -> out -> loss, accuracy. Only `fill` reads the rows of loss as numbers, and nothing reads
  // accuracy. The linear layer's result is not kept, but relu reads it.
  const auto all = rematerialized(made.module.graph, made.chain, 0, n, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(all, (std::vector<bool>{true, true, true, true, true, false}));
  const auto relu = rematerialized(made.module.graph, made.chain, 0, n, {2});
  EXPECT_EQ(relu, (std::vector<bool>{false, true, true, false, false, false}));
  EXPECT_EQ(rematerialized(made.module.graph, made.chain, 0, n, {}), std::vector<bool>(6, false));
  EXPECT_EQ(rematerialized(made.module.graph, made.chain, 0, n, {5}), std::vector<bool>(6, false));
}

TEST(Chain, ResidentBytesHoldWeightsStatesAndOptimizer) {
  const Made made = make({.layers = 0, .input = 32, .width = 64, .classes = 16, .momentum = 0.9});
  // stem [64, 32]: the weight and one momentum. The gradient is counted separately.
  EXPECT_EQ(made.chain.parameters[0], 64 * 32 * 4);
  EXPECT_EQ(made.chain.resident[0], 2 * 64 * 32 * 4);
  EXPECT_EQ(made.chain.gradients[0], 64 * 32 * 4);
}

TEST(CostModel, PrefersMeasuredTimes) {
  Made made = make({.layers = 1});
  const CostModel analytic(made.facts, kMachine);
  const Seconds before = analytic.node(made.module.graph, NodeId(0), 8);
  EXPECT_GT(before, 0);
  made.facts.nodes[0].time = 0.25;
  EXPECT_EQ(CostModel(made.facts, kMachine).node(made.module.graph, NodeId(0), 8), 0.25);
}

TEST(CostModel, BlocksAreDividedAmongWorkersAndPartialsAreNot) {
  const KernelFacts facts;
  const CostModel cost(facts, kMachine);
  EXPECT_EQ(cost.forward_pass(1, 5, 2), 3);
  EXPECT_EQ(cost.backward_pass(1, 4, 1, 2), 4);  // a partial sum is computed by one worker
  EXPECT_EQ(cost.backward_pass(1, 4, 2, 2), 2);
  EXPECT_EQ(cost.backward_pass(1, 1, 4, 2), 1);
}

TEST(CostModel, MoreThreadsThanCoresShareTheCores) {
  const KernelFacts facts;
  Machine crowded = kMachine;
  crowded.devices = 4;
  crowded.threads = 4;
  const CostModel cost(facts, crowded);
  EXPECT_DOUBLE_EQ(cost.crowding(4), 4.0 / crowded.cores);
  EXPECT_DOUBLE_EQ(cost.crowding(1), 1);
}

TEST(Machine, DividesThreadsAmongDevicesAndKeepsAReserve) {
  const Machine machine = make_machine({}, {.devices = 3, .threads = 8}, 4, 16 * kGiB);
  EXPECT_EQ(machine.threads_of(0) + machine.threads_of(1) + machine.threads_of(2), 8);
  EXPECT_EQ(machine.memory, 15 * kGiB);
  EXPECT_EQ(machine.name, "3 x cpu");
  ClusterSpec cluster;
  cluster.cores = 6;
  cluster.memory = 8 * kGiB;
  cluster.reserve = kGiB;
  const Machine given = make_machine(cluster, {}, 4, 16 * kGiB);
  EXPECT_EQ(given.devices, 6);
  EXPECT_EQ(given.threads, 6);
  EXPECT_EQ(given.memory, 7 * kGiB);
  cluster.cpu = "epyc";
  EXPECT_EQ(make_machine(cluster, {}, 4, 16 * kGiB).name, "6 x epyc");
  // If there are fewer threads than devices, each device counts as one thread.
  EXPECT_EQ(make_machine({}, {.devices = 4, .threads = 2}, 2, kGiB).threads, 4);
}

TEST(Mesh, ShardsOwnAllClassesInWholeBlocks) {
  const Machine two = make_machine({}, {.devices = 2}, 2, kGiB);
  for (const int64_t classes : {int64_t{10}, int64_t{64}, int64_t{20902}, int64_t{1000000}}) {
    for (const int shards : {1, 2, 3, 7}) {
      int64_t row = 0;
      const ShardHint hint{.shards = shards};
      const std::vector<int> devices = shard_devices(two, &hint, 0);
      for (const HeadShard& shard : place_shards(0, {classes, class_block(classes, classes)}, devices)) {
        EXPECT_EQ(shard.row_begin, row);
        EXPECT_EQ(shard.device, shard.shard % 2);
        row = shard.row_end;
      }
      EXPECT_EQ(row, classes);
    }
  }
}

TEST(Mesh, ShardsAreOnAllDevicesOnTheFirstOnesOrOnOneOfEachNode) {
  const ClusterSpec cluster{.nodes = 3, .network = {"ethernet", 1e9, 1e-5}, .cores = 2};
  const Machine machine = make_machine(cluster, {}, 2, 16 * kGiB);
  const ShardHint nodes{.by_node = true};
  const ShardHint eight{.shards = 8};
  EXPECT_EQ(shard_devices(machine, nullptr, 0), (std::vector{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(shard_devices(machine, nullptr, 2), (std::vector{0, 1}));
  EXPECT_EQ(shard_devices(machine, &nodes, 2), (std::vector{0, 2, 4}));
  const MachineRequest interleaved{.devices = 4, .ranks = 4, .rank_nodes = {0, 1, 0, 1}};
  EXPECT_EQ(shard_devices(make_machine({}, interleaved, 4, kGiB), &nodes, 0), (std::vector{0, 1}));
  EXPECT_EQ(shard_devices(machine, &eight, 2), (std::vector{0, 1, 2, 3, 4, 5, 0, 1}));
}

TEST(Heads, AreFoundWithLossMetricsAndTensors) {
  const Machine two = make_machine({}, {.devices = 2}, 2, kGiB);
  const Made made = make({.layers = 1, .classes = 1000, .head = true, .head_bias = true});
  const auto heads = plan_heads(made.module, made.chain, two, 64);
  ASSERT_TRUE(heads.ok()) << heads.error().message;
  const HeadPlan& head = (*heads)[0];
  const Graph& graph = made.module.graph;
  EXPECT_EQ(graph.param(head.weight).name, "id.weight");
  EXPECT_EQ(graph.param(head.bias).name, "id.bias");
  EXPECT_EQ(graph.value(head.label).name, "label");
  EXPECT_EQ(graph.value(head.feature_grad).name, "id.dx");
  EXPECT_EQ(graph.node(head.loss).path, "loss");
  ASSERT_EQ(head.metrics.size(), 1U);
  EXPECT_EQ(head.classes, 1000);
  EXPECT_FALSE(head.update_sweep);
  const auto parts = plan_heads(made.module, made.chain, two, 32);
  EXPECT_TRUE((*parts)[0].update_sweep);
}

}  // namespace
}  // namespace xrun::planner
