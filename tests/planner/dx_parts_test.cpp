// The sum of a head's dX partials on a node before they are sent: which shards it takes, what crosses the network, and
// what the verifier says of damaged ones.
#include "planner/dx_parts.h"

#include <gtest/gtest.h>

#include "planner/links.h"
#include "tests/planner/verify_case.h"

namespace xrun::planner {
namespace {

// Shards of 16 class blocks each, but for `sizes`, on the devices of the same numbers.
HeadPlan head_of(const std::vector<int64_t>& sizes) {
  HeadPlan head;
  head.class_block = 1;
  for (const int64_t size : sizes) {
    const int number = static_cast<int>(head.shards.size());
    head.shards.push_back(
        {.shard = number, .device = number, .row_begin = head.classes, .row_end = head.classes + size});
    head.classes += size;
  }
  return head;
}

std::vector<std::vector<int>> shards_of_parts(const std::vector<DxPart>& parts) {
  std::vector<std::vector<int>> shards;
  for (const DxPart& part : parts) {
    shards.push_back(part.shards);
  }
  return shards;
}

TEST(DxParts, OtherNodesSumShardsNextToOneAnother) {
  using Shards = std::vector<std::vector<int>>;
  const HeadPlan head = head_of({5, 5, 5, 5, 5, 5});
  const std::vector nodes{0, 0, 0, 1, 1, 1};
  EXPECT_EQ(shards_of_parts(dx_parts(head, nodes, 0, 0)), (Shards{{0}, {1}, {2}, {3, 4, 5}}));
  EXPECT_EQ(shards_of_parts(dx_parts(head, nodes, 4, 0)), (Shards{{0, 1, 2}, {3}, {4}, {5}}));
  EXPECT_EQ(shards_of_parts(dx_parts(head, {}, 4, 0)), (Shards{{0}, {1}, {2}, {3}, {4}, {5}})) << "one node";
  EXPECT_EQ(shards_of_parts(dx_parts(head, std::vector{0, 1, 0, 1, 1, 2}, 0, 0)), (Shards{{0}, {1}, {2}, {3, 4}, {5}}))
      << "only neighbours have a subtree together";
  EXPECT_EQ(shards_of_parts(dx_parts(head_of({5, 0, 5, 0, 5}), std::vector{0, 0, 1, 0, 1}, 0, 0)),
            (Shards{{0}, {2, 4}}))
      << "shards without classes do not part others";
}

TEST(DxParts, DevicesTakeTurns) {
  const HeadPlan head = head_of({5, 5, 5, 5});
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(dx_parts(head, std::vector{0, 1, 1, 1}, 0, turn).back().device, 1 + turn % 3);
  }
}

TEST(DxParts, NothingIsSummedThatSendsAsMuch) {
  // [1, 2) and [2, 4) are subtrees, which have no common one without block 0.
  const HeadPlan head = head_of({1, 1, 2});
  EXPECT_EQ(dx_parts(head, std::vector{0, 1, 1}, 0, 0).size(), 3U);
  const HeadPlan aligned = head_of({2, 1, 1});
  const std::vector<DxPart> parts = dx_parts(aligned, std::vector{0, 1, 1}, 0, 0);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[1].is_summed());
  EXPECT_EQ(parts[1].classes, (ClassRange{2, 4}));
}

using testing::Case;
using testing::CaseOptions;
using testing::find;

// Three shards over the devices of two nodes; the stage that makes the features is on one of them.
const CaseOptions kNodes{.replicas = 1, .nodes = 2, .devices = 6, .shards = 6};

Bytes bytes_between_nodes(const Program& program) {
  Bytes sent = 0;
  for (const Instruction& one : program.instructions) {
    for (const Operand& operand : one.operands) {
      const bool gradients = one.kind == Kind::kReduceScatter && one.head >= 0 && operand.role == Role::kSent;
      if (gradients && program.device_nodes[static_cast<size_t>(one.device)] !=
                           program.device_nodes[static_cast<size_t>(operand.index)]) {
        sent += operand.bytes;
      }
    }
  }
  return sent;
}

TEST(DxParts, ANodeSendsOnePartialForEachSubtreeOfItsClasses) {
  const Case made = testing::make_case(kNodes);
  ASSERT_EQ(testing::complaint(made), "");
  const HeadPlan& head = made.program.heads[0];
  const auto partials = [&](size_t first, size_t last) {
    const ClassRange rows{head.shards[first].row_begin, head.shards[last].row_end};
    return static_cast<Bytes>(head.blocks().subtrees(head.blocks().of_rows(rows)).size());
  };
  const Instruction& reduce = find(const_cast<Program&>(made.program), Kind::kReduceDx);
  const bool second = made.program.device_nodes[static_cast<size_t>(reduce.device)] == 1;
  const size_t first = second ? 0 : 3;
  const Bytes rows = testing::operand(const_cast<Instruction&>(reduce), Role::kDx).bytes;
  const Bytes together = partials(first, first + 2);
  EXPECT_LT(together, partials(first, first) + partials(first + 1, first + 1) + partials(first + 2, first + 2));
  EXPECT_EQ(bytes_between_nodes(made.program), together * rows * made.program.micro_batches);
}

TEST(DxParts, TheVerifierFindsDamage) {
  const auto sum = [](Program& p) -> Instruction& { return find(p, Kind::kSumDx); };
  const auto exchange = [](Program& p) -> Instruction& {
    return find(p, [](const Instruction& one) {
      return one.kind == Kind::kReduceScatter && one.shard >= 0 && one.operands[0].role == Role::kSent;
    });
  };
  const auto sums = [](Program& p) -> Buffer& {
    return testing::find_buffer(p, [](const Buffer& buffer) { return buffer.purpose == Purpose::kHeadSums; });
  };
  testing::expect_operand_found(
      "sums the gradients of no shards of its node", [&](Program& p) { sum(p).shard += 1; }, kNodes);
  testing::expect_operand_found(
      "sums the gradients of no shards of its node", [&](Program& p) { sum(p).gather = -1; }, kNodes);
  testing::expect_operand_found(
      "wrong operand", [&](Program& p) { sum(p).operands[0].step += 64; }, kNodes);
  testing::expect_operand_found(
      "wrong operand", [&](Program& p) { sum(p).operands.back().bytes -= 64; }, kNodes);
  testing::expect_operand_found(
      "where its operand", [&](Program& p) { sum(p).operands.pop_back(); }, kNodes);
  testing::expect_operand_found(
      "cannot work on buffer", [&](Program& p) { sum(p).operands.back().buffer = find(p, Purpose::kHeadGradient).id; },
      kNodes);
  testing::expect_found(
      "has members of two kinds", [&](Program& p) { exchange(p).shard += 1; }, kNodes);
  testing::expect_operand_found(
      "has other members than its exchange",
      [&](Program& p) {
        const int group = exchange(p).group;
        for (Instruction& one : p.instructions) {
          one.shard += one.group == group ? 1 : 0;
        }
      },
      kNodes);
  testing::expect_operand_found(
      "wrong operand", [&](Program& p) { testing::operand(exchange(p), Role::kSent).offset += 64; }, kNodes);
  testing::expect_found(
      "is of no sum of its device", [&](Program& p) { sums(p).micro_batch = -1; }, kNodes);
  testing::expect_operand_found(
      "bytes for", [&](Program& p) { sums(p).bytes -= 64; }, kNodes);
  testing::expect_found(
      "devices on nodes of", [](Program& p) { p.device_nodes.pop_back(); }, kNodes);
}

}  // namespace
}  // namespace xrun::planner
