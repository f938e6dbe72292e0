#include "planner/program/save_size.h"

#include <gmock/gmock.h>

#include "planner/program/buffer_sizes.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

using ::testing::ElementsAre;

// A save has the weights, running states and optimizer states, each once. The case has two replicas of two stages, and
// a head in three shards.
TEST(SaveSize, CountsEachTensorOnce) {
  const Case made = make_case();
  const Graph& graph = made.module.graph;
  const auto states = static_cast<Bytes>(optimizer_states(made.module).size());
  Bytes params = 0;
  for (const Parameter& param : graph.params) {
    params += graph.value(param.value).type.bytes(0, made.program.norm_rows) * (param.trained ? 1 + states : 1);
  }
  Machine machine{.devices = 5};
  EXPECT_THAT(save_by_node(made.program, machine), ElementsAre(params));
  machine.device_nodes = {0, 1, 0, 1, 0};
  const std::vector<Bytes> nodes = save_by_node(made.program, machine);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0] + nodes[1], params);
  EXPECT_GT(nodes[1], 0);
}

// The lists of nearest classes are in host memory.
TEST(SaveSize, CountsBuffersInHostMemory) {
  const Case made = make_case({.knn = true});
  Bytes host = 0;
  for (const Buffer& buffer : made.program.buffers) {
    host += buffer.device == kHost && is_saved(buffer.purpose) ? buffer.bytes : 0;
  }
  EXPECT_GT(host, 0);
  Machine machine{.devices = 5};
  const Bytes all = save_by_node(made.program, machine)[0];
  machine.device_nodes = {1, 1, 1, 1, 1};
  EXPECT_THAT(save_by_node(made.program, machine), ElementsAre(host, all - host));
}

}  // namespace
}  // namespace xrun::planner::testing
