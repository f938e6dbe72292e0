// Buckets of gradients, each of which replicas reduce in one exchange.
#include <algorithm>
#include <gmock/gmock.h>
#include <iterator>
#include <map>

#include "tests/planner/verify/same_results.h"

namespace xrun::planner::testing {
namespace {

using ::testing::ElementsAre;

bool is_slice_exchange(const Program& program, const Instruction& one, Kind kind) {
  return one.kind == kind && one.head < 0 && one.stage == 0 && !one.operands.empty() &&
         program.buffer(one.operands[0].buffer).purpose == Purpose::kGradient;
}

// An instruction of stage 0 on replica 0 that sums gradients, and the weights whose gradients it sums.
struct Step {
  Kind kind;
  std::vector<std::string> params;
};

std::vector<Step> steps_of(const Case& made) {
  std::vector<Step> steps;
  for (const Instruction& one : made.program.instructions) {
    const bool exchanges = is_slice_exchange(made.program, one, Kind::kReduceScatter) ||
                           is_slice_exchange(made.program, one, Kind::kAllGather);
    if ((!exchanges && one.kind != Kind::kSumReplicas) || one.stage != 0 || one.replica != 0) {
      continue;
    }
    steps.push_back({one.kind, {}});
    for (const Operand& each : one.operands) {
      const std::string& name = made.module.graph.param(made.program.buffer(each.buffer).param).name;
      if (steps.back().params.empty() || steps.back().params.back() != name) {
        steps.back().params.push_back(name);
      }
    }
  }
  return steps;
}

std::vector<Kind> kinds_of(const std::vector<Step>& steps) {
  std::vector<Kind> kinds;
  for (const Step& step : steps) {
    kinds.push_back(step.kind);
  }
  return kinds;
}

TEST(Buckets, SmallGradientsAreReducedTogether) {
  EXPECT_THAT(kinds_of(steps_of(make_case())), ElementsAre(Kind::kReduceScatter, Kind::kSumReplicas, Kind::kAllGather));
}

// The slices of a bucket are sent while earlier buckets are summed.
TEST(Buckets, AGradientLargerThanABucketHasABucketOfItsOwn) {
  const Case made = make_case({.bucket = 1});
  ASSERT_EQ(complaint(made), "");
  const std::vector<Step> steps = steps_of(made);
  ASSERT_GE(steps.size(), 9U);
  EXPECT_EQ(steps.size() % 3, 0U);
  std::vector<Kind> wanted{Kind::kReduceScatter};
  for (size_t bucket = 0; bucket < steps.size() / 3; ++bucket) {
    if (bucket + 1 < steps.size() / 3) {
      wanted.push_back(Kind::kReduceScatter);
    }
    wanted.insert(wanted.end(), {Kind::kSumReplicas, Kind::kAllGather});
  }
  EXPECT_EQ(kinds_of(steps), wanted);
  std::map<std::string, int> seen;
  for (const Step& step : steps) {
    ASSERT_EQ(step.params.size(), 1U);
    ++seen[step.params[0]];
  }
  for (const auto& [name, times] : seen) {
    EXPECT_EQ(times, 3) << name;
  }
}

// Returns the most bytes of terms that device 0 holds at once, and the bytes of terms of all buckets together.
std::pair<Bytes, Bytes> terms_of(const Case& made) {
  std::map<int32_t, Bytes> changes;  // change of the bytes, by instruction
  Bytes sum = 0;
  for (const Buffer& buffer : made.program.buffers) {
    if (buffer.purpose == Purpose::kTerms && buffer.head < 0 && buffer.device == 0) {
      changes[buffer.first_use] += buffer.bytes;
      changes[buffer.last_use + 1] -= buffer.bytes;
      sum += buffer.bytes;
    }
  }
  Bytes now = 0;
  Bytes most = 0;
  for (const auto& [instruction, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return {most, sum};
}

TEST(Buckets, TermsOfDifferentBucketsShareMemory) {
  const ModelOptions deep{.layers = 12, .classes = 900, .head = true};
  const auto [most, sum] = terms_of(make_case({.model = deep, .bucket = 1}));
  EXPECT_LT(2 * most, sum);
  const auto [all, same] = terms_of(make_case({.model = deep}));
  EXPECT_EQ(all, same) << "one bucket";
}

void expect_bucket_found(const std::string& words, const std::function<void(Program&)>& damage) {
  expect_operand_found(words, damage, {.bucket = 1});
}

TEST(Buckets, DamagedBucketsAreFound) {
  const auto all_of = [](Program& p, Kind kind, int replica) {
    std::vector<Instruction*> list;
    for (Instruction& one : p.instructions) {
      if (one.stage == 0 && one.replica == replica && (one.kind == Kind::kSumReplicas || one.head < 0) &&
          (kind == Kind::kSumReplicas ? one.kind == kind : is_slice_exchange(p, one, kind))) {
        list.push_back(&one);
      }
    }
    return list;
  };
  for (const Kind kind : {Kind::kReduceScatter, Kind::kAllGather}) {
    // One weight of a bucket is replaced by another one.
    expect_bucket_found("of device 2, which sends", [&](Program& p) {
      std::swap(all_of(p, kind, 0)[0]->operands, all_of(p, kind, 0)[1]->operands);
    });
    // A bucket is exchanged twice before the update, which changes nothing.
    expect_same_results(
        [&](Program& p) {
          const int group = all_of(p, kind, 0).back()->group;
          std::vector<Instruction> again;
          std::ranges::copy_if(p.instructions, std::back_inserter(again),
                               [&](const Instruction& one) { return one.group == group; });
          const int unused = std::ranges::max(p.instructions, {}, &Instruction::group).group + 1;
          for (Instruction& one : again) {
            one.group = unused;
          }
          const auto after =
              std::ranges::find_if(p.instructions, [](const Instruction& one) { return one.kind == Kind::kUpdate; });
          p.instructions.insert(after, again.begin(), again.end());
        },
        {.bucket = 1});
    // The last bucket is not exchanged.
    expect_bucket_found(kind == Kind::kAllGather ? "lack the gradient of `stem.weight` summed over replicas 0 to 1"
                                                 : "lack the gradient of `stem.weight` of replica 1",
                        [&](Program& p) {
                          const int group = all_of(p, kind, 0).back()->group;
                          std::erase_if(p.instructions, [&](const Instruction& one) { return one.group == group; });
                        });
  }
  // Members of a group carry different weights.
  expect_bucket_found("(reduce_scatter) receives a block that device 0 does not send", [&](Program& p) {
    const auto mine = all_of(p, Kind::kReduceScatter, 1);
    mine[0]->operands.insert(mine[0]->operands.end(), mine[1]->operands.begin(), mine[1]->operands.end());
  });
  // A sum is done twice, is left out, has no terms, or is done after its slices were sent.
  expect_bucket_found("has the term of replica 1 where replicas 2 to 3 are next", [&](Program& p) {
    const auto sums = all_of(p, Kind::kSumReplicas, 0);
    sums[1]->operands = sums[0]->operands;
  });
  expect_bucket_found("lack the gradient of `layer0.bn.weight` summed over replicas 0 to 1", [&](Program& p) {
    const InstructionId id = all_of(p, Kind::kSumReplicas, 0)[1]->id;
    p.instructions.erase(p.instructions.begin() + id.index);
  });
  expect_bucket_found("lack the gradient of `layer0.bn.weight` summed over replicas 0 to 1",
                      [&](Program& p) { all_of(p, Kind::kSumReplicas, 0)[1]->operands.clear(); });
  expect_bucket_found("(all_gather) receives a block that device 2 does not send", [&](Program& p) {
    const auto sum = p.instructions.begin() + all_of(p, Kind::kSumReplicas, 0)[0]->id.index;
    const auto sent = p.instructions.begin() + all_of(p, Kind::kAllGather, 0)[0]->id.index;
    std::rotate(sum, sum + 1, sent + 1);
  });
  // A backward pass runs after the exchanges have begun.
  expect_bucket_found(
      "lack the complete partial 1 of the gradient of `layer1.linear.weight`; they hold zeros", [&](Program& p) {
        const auto last = std::find_if(p.instructions.rbegin(), p.instructions.rend(), [](const Instruction& one) {
          return one.kind == Kind::kBackward && one.stage == 0 && one.replica == 0;
        });
        const auto sent = p.instructions.begin() + all_of(p, Kind::kReduceScatter, 0)[0]->id.index;
        std::rotate(last.base() - 1, last.base(), sent + 1);
      });
}

// Exchanges of plans of 0.1.0 have the gradients of a stage in the order of its weights.
TEST(Buckets, GradientsMayHaveTheOrderOfTheWeights) {
  Case made = make_case();
  int changed = 0;
  for (Instruction& one : made.program.instructions) {
    const auto param = [&](const Operand& operand) { return made.program.buffer(operand.buffer).param; };
    if (is_slice_exchange(made.program, one, Kind::kReduceScatter) ||
        is_slice_exchange(made.program, one, Kind::kAllGather)) {
      changed += std::ranges::is_sorted(one.operands, {}, param) ? 0 : 1;
      std::ranges::stable_sort(one.operands, {}, param);
    }
  }
  EXPECT_EQ(changed, 4) << "two exchanges of two replicas";
  EXPECT_TRUE(verify_module(made.program, made.module).ok());
  // The members of an exchange have one order.
  Instruction& last = *std::ranges::find_if(made.program.instructions, [&](const Instruction& one) {
    return is_slice_exchange(made.program, one, Kind::kReduceScatter) && one.replica == 1;
  });
  std::ranges::reverse(last.operands);
  EXPECT_FALSE(verify_module(made.program, made.module).ok());
}

}  // namespace
}  // namespace xrun::planner::testing
