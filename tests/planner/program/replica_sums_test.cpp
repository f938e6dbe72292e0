// Rounds of sums over replicas: every element is summed over all replicas, on exactly one of them.
#include "planner/program/replica_sums.h"

#include <algorithm>
#include <gmock/gmock.h>

#include "planner/program/links.h"
#include "tests/planner/verify/same_results.h"

namespace xrun::planner {
namespace {

using ::testing::ElementsAre;

// For each element of each replica, the set of replicas whose gradients the element includes, as one bit per replica.
using Held = std::vector<std::vector<uint64_t>>;

Held sum_all(int replicas, int node_replicas, int64_t count) {
  const ReplicaSums sums(replicas, node_replicas);
  Held held;
  for (int r = 0; r < replicas; ++r) {
    held.emplace_back(count, uint64_t{1} << r);
  }
  for (int round = 0; round < sums.rounds(); ++round) {
    const Held before = held;
    for (int r = 0; r < replicas; ++r) {
      const Slice slice = sums.slice(count, round, r);
      for (const int other : sums.members(round, r)) {
        for (Bytes at = slice.offset / 4; other != r && at < (slice.offset + slice.bytes) / 4; ++at) {
          uint64_t& sum = held[static_cast<size_t>(r)][static_cast<size_t>(at)];
          const uint64_t term = before[static_cast<size_t>(other)][static_cast<size_t>(at)];
          EXPECT_EQ(sum & term, 0U) << "a gradient counts once";
          sum |= term;
        }
      }
    }
  }
  return held;
}

TEST(ReplicaSums, EveryElementIsSummedOverAllReplicasOnOneOfThem) {
  for (int replicas = 1; replicas <= 12; ++replicas) {
    for (int node_replicas = 1; node_replicas <= replicas; ++node_replicas) {
      for (const int64_t count : {1, 2, 3, 7, 64, 1001}) {
        if (replicas % node_replicas != 0) {
          continue;
        }
        const ReplicaSums sums(replicas, node_replicas);
        const Held held = sum_all(replicas, node_replicas, count);
        std::vector<int> owners(static_cast<size_t>(count), 0);
        for (int r = 0; r < replicas; ++r) {
          const Slice own = sums.slice(count, sums.rounds() - 1, r);
          for (Bytes at = own.offset / 4; at < (own.offset + own.bytes) / 4; ++at) {
            ++owners[static_cast<size_t>(at)];
            EXPECT_EQ(held[static_cast<size_t>(r)][static_cast<size_t>(at)], (uint64_t{1} << replicas) - 1)
                << replicas << " replicas, " << node_replicas << " a node, element " << at << " of " << count;
          }
        }
        EXPECT_THAT(owners, ::testing::Each(1)) << replicas << " replicas, " << node_replicas << " a node";
      }
    }
  }
}

TEST(ReplicaSums, TermsOfARoundReuseTheMemoryOfTheRoundBefore) {
  EXPECT_EQ(ReplicaSums(4, 1).terms(64, 0), 3 * 16 * 4);
  EXPECT_EQ(ReplicaSums(4, 2).terms(64, 0), 32 * 4) << "one term of half the gradient, then one of a quarter";
  EXPECT_EQ(ReplicaSums(6, 2).terms(60, 0), 30 * 4) << "one term of a half, then two of a sixth";
}

int on(const std::vector<int>& device_nodes, const std::vector<std::vector<int>>& stages) {
  return replicas_of_node(device_nodes, stages);
}

TEST(ReplicaSums, ReplicasPerNodeAreThoseCommonToAllStages) {
  EXPECT_EQ(on({}, {{0}}), 1);
  EXPECT_EQ(on({0, 0, 0, 0}, {{0, 1, 2, 3}}), 1) << "one node";
  EXPECT_EQ(on({0, 0, 1, 1}, {{0, 1, 2, 3}}), 2);
  EXPECT_EQ(on({0, 0, 0, 1, 1, 1}, {{0, 1, 2, 3, 4, 5}}), 3);
  EXPECT_EQ(on({0, 0, 0, 0, 1, 1}, {{0, 1, 2, 3, 4, 5}}), 2) << "the second and the third pair are of two nodes";
  EXPECT_EQ(on({0, 1, 0, 1}, {{0, 1, 2, 3}}), 1) << "neighbours lie on different nodes";
  EXPECT_EQ(on({0, 0, 1, 1, 2}, {{0, 1, 2, 3, 4}}), 1) << "a node has one replica";
  EXPECT_EQ(on({0, 0, 0, 0, 1, 1, 1, 1}, {{0, 2, 4, 6}, {1, 3, 5, 7}}), 2);
  EXPECT_EQ(on({0, 0, 0, 1, 1, 1, 1, 1}, {{0, 2, 4, 6}, {1, 3, 5, 7}}), 1) << "a stage reaches into the next node";
  EXPECT_EQ(on({0, 0, 0, 0, 1, 1}, {{0, 1, 2, 3}}), 1) << "all on the first node";
}

testing::Case two_nodes(Bytes bucket) {
  return testing::make_case({.bucket = bucket, .replicas = 4, .nodes = 2, .devices = 8});
}

bool sends_slices(const Program& program, const Instruction& one) {
  return (one.kind == Kind::kReduceScatter || one.kind == Kind::kAllGather) && one.head < 0 && !one.operands.empty() &&
         program.buffer(one.operands[0].buffer).purpose == Purpose::kGradient;
}

// Returns the instructions of stage 0 on replica 0, each exchange with the devices that it joins.
std::vector<std::string> steps_of(const Program& program) {
  std::vector<std::string> steps;
  for (const Instruction& one : program.instructions) {
    if (one.stage != 0 || one.replica != 0) {
      continue;
    }
    if (one.kind == Kind::kSumReplicas) {
      steps.emplace_back("sum");
    } else if (sends_slices(program, one)) {
      std::set<int> devices;
      for (const Operand& operand : one.operands) {
        for (int k = 0; k < operand.count; ++k) {
          devices.insert(operand.device(k));
        }
      }
      steps.push_back(one.kind == Kind::kAllGather ? "to all" : "to");
      for (const int device : devices) {
        steps.back() += " " + std::to_string(device);
      }
    }
  }
  return steps;
}

TEST(ReplicaSums, NodesSumBeforeTheyExchange) {
  const testing::Case one = two_nodes(0);
  EXPECT_EQ(testing::complaint(one), "");
  EXPECT_EQ(one.program.node_replicas, 2);
  EXPECT_THAT(steps_of(one.program), ElementsAre("to 2", "sum", "to 4", "sum", "to all 2 4 6"));
  // If there are several buckets, each does its next round in turn.
  const testing::Case many = two_nodes(1);
  EXPECT_EQ(testing::complaint(many), "");
  const std::vector<std::string> steps = steps_of(many.program);
  ASSERT_GE(steps.size(), 9U);
  EXPECT_THAT(std::vector(steps.begin(), steps.begin() + 9),
              ElementsAre("to 2", "to 2", "sum", "to 4", "to 2", "sum", "to 4", "sum", "to all 2 4 6"));
}

TEST(ReplicaSums, ANodeSendsItsOwnSumAndNotThoseOfItsReplicas) {
  const auto sent = [](int node_replicas) {
    testing::Case made = two_nodes(0);
    if (node_replicas == 1) {
      made = testing::make_case({.replicas = 4, .devices = 8});
    }
    Machine machine = testing::make_test_machine(8);
    machine.device_nodes = {0, 0, 0, 0, 1, 1, 1, 1};
    machine.ranks = 2;
    std::map<Kind, Bytes> bytes;  // bytes that node 0 sends
    const auto loads = link_loads(made.program, machine);
    std::set<int> known;
    for (const Instruction& one : made.program.instructions) {
      if (sends_slices(made.program, one) && loads.contains(one.group) && known.insert(one.group).second) {
        bytes[one.kind] += loads.at(one.group).links()[0].sent;
      }
    }
    return bytes;
  };
  auto flat = sent(1);
  auto nodes = sent(2);
  EXPECT_EQ(flat[Kind::kReduceScatter], 2 * nodes[Kind::kReduceScatter]);
  EXPECT_EQ(flat[Kind::kAllGather], nodes[Kind::kAllGather]);
  EXPECT_GT(nodes[Kind::kAllGather], 0);
}

void expect_found(const std::string& words, const std::function<void(Program&)>& damage) {
  testing::expect_operand_found(words, damage, {.replicas = 4, .nodes = 2, .devices = 8});
}

// Returns the n-th exchange of terms, or sum, of replica 0 of stage 0.
Instruction& nth(Program& p, Kind kind, int n) {
  return testing::find(p, [&, n](const Instruction& one) mutable {
    const bool wanted =
        one.kind == kind && one.stage == 0 && one.replica == 0 && (kind == Kind::kSumReplicas || sends_slices(p, one));
    return wanted && n-- == 0;
  });
}

// Moves the exchanges of the second round of stage 0 after all of its sums.
void exchange_too_late(Program& p) {
  std::set<InstructionId> late;
  std::map<int, int> seen;  // number of exchanges found so far; key: replica
  ptrdiff_t last_sum = 0;
  for (const Instruction& one : p.instructions) {
    if (one.kind == Kind::kReduceScatter && one.stage == 0 && sends_slices(p, one) && ++seen[one.replica] == 2) {
      late.insert(one.id);
    }
    if (one.kind == Kind::kSumReplicas && one.stage == 0) {
      last_sum = one.id.index;
    }
  }
  ASSERT_EQ(late.size(), 4U);
  std::stable_partition(p.instructions.begin(), p.instructions.begin() + last_sum + 1,
                        [&](const Instruction& one) { return !late.contains(one.id); });
}

TEST(ReplicaSums, DamagedRoundsAreFound) {
  // Sums or exchanges of a round are left out, or are in another order.
  expect_found(
      "(layer1.linear.weight.gradient) lack the gradient of `layer1.linear.weight` summed over replicas 0 to 3; they "
      "hold the gradient of `layer1.linear.weight` summed over replicas 0 to 1",
      [](Program& p) {
        const InstructionId second = nth(p, Kind::kSumReplicas, 1).id;
        std::erase_if(p.instructions, [&](const Instruction& one) { return one.id == second; });
      });
  const char* const nothing =
      "(sum-replicas): bytes 0 to 4096 of buffer 317 (layer1.linear.weight.terms) lack the gradient of "
      "`layer1.linear.weight` summed over replicas 2 to 3; they hold nothing of this step";
  expect_found(nothing, [](Program& p) {
    const int group = nth(p, Kind::kReduceScatter, 1).group;
    std::erase_if(p.instructions, [&](const Instruction& one) { return one.group == group; });
  });
  expect_found(
      "(layer1.linear.weight.terms) lack the gradient of `layer1.linear.weight` of replica 1; they hold the gradient "
      "of `layer1.linear.weight` summed over replicas 2 to 3",
      [](Program& p) {
        const auto sum = static_cast<size_t>(nth(p, Kind::kSumReplicas, 0).id.index);
        const auto sent = static_cast<size_t>(nth(p, Kind::kReduceScatter, 1).id.index);
        testing::move(p, sum, sum + 1, testing::group_at(p, sent).second);
      });
  // The rounds use the same memory for their terms, which holds no terms after the sums of the first round.
  expect_found(nothing, exchange_too_late);
  // A member is in another exchange of the first round.
  expect_found("(reduce_scatter) receives a block that device 6 does not send", [](Program& p) {
    const int group = nth(p, Kind::kReduceScatter, 0).group;
    testing::find(p, [](const Instruction& one) {
      return one.kind == Kind::kReduceScatter && one.stage == 0 && one.replica == 2 && one.head < 0;
    }).group = group;
  });
  // A term is of the other round, or of other bytes.
  expect_found("(sum-replicas) has the term of replica 1 where replicas 2 to 3 are next",
               [](Program& p) { testing::operand(nth(p, Kind::kSumReplicas, 1), Role::kTerm).index = 1; });
  expect_found(
      "(layer1.linear.weight.terms) lack the gradient of `layer1.linear.weight` summed over replicas 0 to 1; "
      "they hold other parts of it",
      [](Program& p) { testing::operand(nth(p, Kind::kReduceScatter, 1), Role::kSent).offset = 0; });
  expect_found("(sum-replicas) has the term of replica 2 where replicas 4 to 7 are next", [](Program& p) {
    const Instruction again = nth(p, Kind::kSumReplicas, 1);
    const auto at = p.instructions.begin() + again.id.index;
    p.instructions.insert(at, again);
  });
}

TEST(ReplicaSums, ReplicasPerNodeAreThoseOfTheDevices) {
  const testing::CaseOptions nodes{.replicas = 4, .nodes = 2, .devices = 8};
  for (const int count : {0, -1, 3, 5, 1 << 30}) {
    testing::expect_found(
        "of them on a node", [&](Program& p) { p.node_replicas = count; }, nodes);
  }
  testing::expect_found(
      "1 replicas sum on a node first", [](Program& p) { p.node_replicas = 1; }, nodes);
  testing::expect_found("2 replicas sum on a node first", [](Program& p) { p.node_replicas = 2; },
                        {.replicas = 4, .devices = 8});
}

}  // namespace
}  // namespace xrun::planner
