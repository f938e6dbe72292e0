// The sum of a head's dX partials on a node before they are sent: the shards that it includes, the bytes that cross the
// network, and the verifier's messages for damaged sums.
#include "planner/program/dx_terms.h"

#include <gtest/gtest.h>

#include "planner/program/links.h"
#include "tests/planner/verify/same_results.h"

namespace xrun::planner {
namespace {

using testing::Case;
using testing::CaseOptions;
using testing::find;
using Shards = std::vector<std::vector<int>>;

// Makes a head with one shard of `sizes[i]` class blocks on each device i.
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

Shards shards_of_sum(const HeadPlan& head, const std::vector<int>& nodes, int receiver) {
  Shards shards;
  for (const DxTerm& term : DxTerms(head, nodes).of_sum(receiver, 0)) {
    shards.push_back(term.shards);
  }
  return shards;
}

TEST(DxTerms, OtherNodesSumAdjacentShards) {
  const HeadPlan head = head_of({5, 5, 5, 5, 5, 5});
  const std::vector nodes{0, 0, 0, 1, 1, 1};
  EXPECT_EQ(shards_of_sum(head, nodes, 0), (Shards{{0}, {1}, {2}, {3, 4, 5}}));
  EXPECT_EQ(shards_of_sum(head, nodes, 4), (Shards{{0, 1, 2}, {3}, {4}, {5}}));
  EXPECT_EQ(shards_of_sum(head, {}, 4), (Shards{{0}, {1}, {2}, {3}, {4}, {5}})) << "one node";
  EXPECT_EQ(shards_of_sum(head, {0, 1, 0, 1, 1, 2}, 0), (Shards{{0}, {1}, {2}, {3, 4}, {5}}))
      << "only neighbours have a subtree together";
  EXPECT_EQ(shards_of_sum(head_of({5, 0, 5, 0, 5}), {0, 0, 1, 0, 1}, 0), (Shards{{0}, {2, 4}}))
      << "shards without classes do not part others";
}

TEST(DxTerms, DevicesOfANodeComputeSumsInTurn) {
  const HeadPlan head = head_of({5, 5, 5, 5});
  const std::vector nodes{0, 1, 1, 1};
  const DxTerms terms(head, nodes);
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(terms.of_sum(0, turn).back().device, 1 + turn % 3);
  }
}

TEST(DxTerms, ASumThatSavesNoTrafficIsNotMade) {
  // [1, 2) and [2, 4) are subtrees, but every subtree that contains both also contains block 0.
  EXPECT_EQ(shards_of_sum(head_of({1, 1, 2}), {0, 1, 1}, 0), (Shards{{0}, {1}, {2}}));
  const HeadPlan aligned = head_of({2, 1, 1});
  const std::vector nodes{0, 1, 1};
  const DxTerms terms(aligned, nodes);
  const DxTerm* summed = terms.on_node(1);
  ASSERT_NE(summed, nullptr);
  EXPECT_EQ(summed->classes, (ClassRange{2, 4}));
  EXPECT_EQ(terms.on_node(2), nullptr);
  EXPECT_EQ(terms.partials_by_node(), (std::map<int, int64_t>{{0, 1}, {1, 1}}));
}

// Six shards on two nodes. The stage that makes the features is on one of the nodes.
const CaseOptions kNodes{.replicas = 1, .nodes = 2, .devices = 6, .shards = 6};

Bytes partials_of(const HeadPlan& head, size_t first, size_t last) {
  const ClassRange rows{head.shards[first].row_begin, head.shards[last].row_end};
  return static_cast<Bytes>(head.blocks().subtrees(head.blocks().of_rows(rows)).size());
}

TEST(DxTerms, ANodeSendsOnePartialForEachSubtreeOfItsClasses) {
  Case made = testing::make_case(kNodes);
  ASSERT_EQ(testing::complaint(made), "");
  const HeadPlan& head = made.program.heads[0];
  Instruction& reduce = find(made.program, Kind::kReduceDx);
  const bool on_second = made.program.device_nodes[static_cast<size_t>(reduce.device)] == 1;
  const size_t first = on_second ? 0 : 3;
  const Bytes together = partials_of(head, first, first + 2);
  EXPECT_LT(together, partials_of(head, first, first) + partials_of(head, first + 1, first + 1) +
                          partials_of(head, first + 2, first + 2));
  Machine machine{.devices = 6, .ranks = 6, .device_nodes = made.program.device_nodes};
  const std::map<int, LinkLoad> loads = link_loads(made.program, machine);
  Bytes sent = 0;
  for (const auto& [group, load] : loads) {
    const Instruction& member =
        find(made.program, [group = group](const Instruction& one) { return one.group == group; });
    sent += member.kind == Kind::kReduceScatter && member.head >= 0 ? load.busiest() : 0;
  }
  const Bytes rows = testing::operand(reduce, Role::kDx).bytes;
  EXPECT_EQ(sent, together * rows * made.program.micro_batches);
}

Instruction& sum(Program& p) { return find(p, Kind::kSumDx); }

// Returns a member, which sends terms, of the exchange before the first sum on a node.
Instruction& exchange(Program& p) {
  return find(p, [](const Instruction& one) {
    return one.kind == Kind::kReduceScatter && one.shard >= 0 && one.operands[0].role == Role::kSent;
  });
}

Buffer& sums(Program& p) {
  return testing::find_buffer(p, [](const Buffer& buffer) { return buffer.purpose == Purpose::kHeadSums; });
}

TEST(DxTerms, TheVerifierFindsDamagedSums) {
  const struct {
    const char* words;
    std::function<void(Program&)> damage;
  } operands[] = {
      {"(sum-dx) has a term of dX for classes 448 to 900 of shard 4", [](Program& p) { sum(p).shard += 1; }},
      {"(sum-dx) sums the dX of no micro-batch", [](Program& p) { sum(p).gather = -1; }},
      {"(id.dx) lack the dX partials of shard 3 of `id` in pass 0; they hold other parts of it",
       [](Program& p) { sum(p).operands[0].step += 64; }},
      {"(sum-dx) has a wrong operand 3 (dx)", [](Program& p) { sum(p).operands.back().bytes -= 64; }},
      {"(sum-dx) has nothing where its operand 3 is its dx", [](Program& p) { sum(p).operands.pop_back(); }},
      {"(id.dx), which it also accesses otherwise",
       [](Program& p) {
         sum(p).operands.back().buffer =
             testing::find_buffer(p, [&](const Buffer& buffer) {
               return buffer.purpose == Purpose::kHeadGradient && buffer.device == sum(p).device;
             }).id;
       }},
      {"(id.dx.terms) lack the dX partials of shard 4 of `id` in pass 0; they hold other parts of it",
       [](Program& p) { testing::operand(exchange(p), Role::kSent).offset += 64; }},
      {"bytes for", [](Program& p) { sums(p).bytes -= 64; }},
  };
  for (const auto& one : operands) {
    testing::expect_operand_found(one.words, one.damage, kNodes);
  }
  testing::expect_found(
      "has members of two kinds", [](Program& p) { exchange(p).shard += 1; }, kNodes);
  testing::expect_found(
      "is of no sum of feature gradients", [](Program& p) { sums(p).micro_batch = -1; }, kNodes);
  testing::expect_found(
      "devices on nodes of", [](Program& p) { p.device_nodes.pop_back(); }, kNodes);
}

// The runtime sums and sends the blocks of the operands. It uses the stage of a sum, and the replica and the shard of
// an exchange, only in reports.
TEST(DxTerms, NumbersThatOnlyReportsUseChangeNoResult) {
  testing::expect_same_results([](Program& p) { sum(p).stage = sum(p).stage == 0 ? 1 : 0; }, kNodes);
  testing::expect_same_results([](Program& p) { exchange(p).replica = 0; }, kNodes);
  testing::expect_same_results(
      [](Program& p) {
        const int group = exchange(p).group;
        for (Instruction& one : p.instructions) {
          one.shard += one.group == group ? 1 : 0;
        }
      },
      kNodes);
}

}  // namespace
}  // namespace xrun::planner
