#include "runtime/wall/wall_model.h"

#include <gtest/gtest.h>

#include "tests/runtime/executor/number_programs.h"

namespace xrun::runtime::testing {
namespace {

// Two nodes with two devices each, and a rank on each node.
planner::Machine two_nodes() {
  return {.devices = 4,
          .ranks = 2,
          .device_nodes = {0, 0, 1, 1},
          .network = {.name = "ethernet", .rate = 1000, .latency = 2}};
}

TEST(WallModel, ASendBetweenNodesTakesItsBytesFromBothLinks) {
  Builder builder(4, 4);
  builder.send(1, 2, 0);  // device 1 on node 0, device 2 on node 1
  WallModel model{.rates = {5}, .work = {}, .exchanges = {}, .messages = {}, .routes = 0, .latency = 0};
  add_exchanges(builder.program, two_nodes(), 10, model);
  EXPECT_EQ(model.rates, (std::vector<double>{5, 100, 100, 100, 100})) << "ten times slower";
  EXPECT_EQ(model.latency, 20);
  ASSERT_EQ(model.messages.size(), 1U);
  EXPECT_EQ(model.messages[0].from, 0);
  EXPECT_EQ(model.messages[0].to, std::vector<int>{1});
  EXPECT_EQ(model.messages[0].bytes, 8 * kNumbers);
  EXPECT_EQ(model.messages[0].buckets, (std::array<size_t, 2>{1, 4})) << "node 0 sends, node 1 receives";
  ASSERT_EQ(model.exchanges.size(), 2U);
  EXPECT_TRUE(model.exchanges[0].senders.empty());
  EXPECT_EQ(model.exchanges[1].senders, std::vector<int>{0});
}

TEST(WallModel, MembersOfAnExchangeHaveTheTimeOfTheSlowestOne) {
  Builder builder(4, 4);
  builder.send(0, 1, 0);
  builder.program.instructions[0].predicted = 3;
  WallModel model;
  add_exchanges(builder.program, two_nodes(), 2, model);
  EXPECT_TRUE(model.messages.empty()) << "both devices are on one node";
  EXPECT_EQ(model.exchanges[1].least, 6);
}

TEST(WallModel, ABlockForSeveralDevicesOfARankIsOneMessage) {
  Builder builder(4, 8);
  builder.gather({0, 1, 2, 3}, {4, 5, 6, 7}, 0);
  WallModel model;
  add_exchanges(builder.program, two_nodes(), 1, model);
  ASSERT_EQ(model.messages.size(), 4U) << "each device sends its block to the other node once";
  for (const WallMessage& message : model.messages) {
    EXPECT_EQ(message.bytes, 8);
    EXPECT_EQ(message.to.size(), 2U) << "both devices of the node wait for it";
  }
  EXPECT_EQ(model.routes, 2U) << "from rank 0 to rank 1, and back";
  EXPECT_EQ(model.exchanges[2].senders, (std::vector<int>{0, 1, 2, 3}));
}

TEST(WallModel, ANetworkWithoutARateHasNoMessages) {
  Builder builder(4, 4);
  builder.send(1, 2, 0);
  planner::Machine machine = two_nodes();
  machine.network = {};
  WallModel model;
  add_exchanges(builder.program, machine, 1, model);
  EXPECT_TRUE(model.messages.empty());
  EXPECT_TRUE(model.rates.empty());
}

}  // namespace
}  // namespace xrun::runtime::testing
