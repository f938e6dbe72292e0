// Programs that lack an exchange or a computation although each of their instructions has the right operands: the
// symbolic run finds what the buffers lack.
#include "planner/verify/symbolic_run.h"

#include <gtest/gtest.h>

#include "graph/os/processor_time.h"
#include "tests/planner/verify/mutants.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

using Wanted = std::function<bool(const Program&, const Instruction&)>;

const CaseOptions kApart{.pipeline = PipelineKind::kOneFOneB};
// One replica, so that the buffers of the head have all rows of the batch, and each pass writes a part of them.
const CaseOptions kOneReplica{.pipeline = PipelineKind::kOneFOneB, .replicas = 1, .devices = 3};
const CaseOptions kClipped{.clip_heads = true};

bool holds(const Program& program, const Instruction& one, Purpose purpose) {
  return !one.operands.empty() && program.buffer(one.operands.back().buffer).purpose == purpose;
}

bool gathers_features(const Program& program, const Instruction& one) {
  return one.kind == Kind::kAllGather && one.gather >= 0 && holds(program, one, Purpose::kGathered);
}
bool gathers_later_features(const Program& program, const Instruction& one) {
  return gathers_features(program, one) && one.gather == 1;
}
bool gathers_statistics(const Program& program, const Instruction& one) {
  return one.kind == Kind::kAllGather && holds(program, one, Purpose::kHeadStats);
}
bool gathers_norms(const Program& program, const Instruction& one) {
  return one.kind == Kind::kAllGather && holds(program, one, Purpose::kNorms);
}
bool copies_to_batch(const Program& program, const Instruction& one) {
  return one.kind == Kind::kCopy && program.buffer(one.operands[1].buffer).head_pass < 0;
}
bool joins_a_later_pass(const Program&, const Instruction& one) {
  return one.kind == Kind::kReduceStats && one.head_pass == 1;
}
bool counts_squares_of_a_head(const Program&, const Instruction& one) { return one.kind == Kind::kHeadNorms; }

size_t find_index(const Program& program, const Wanted& wanted) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (wanted(program, program.instructions[i])) {
      return i;
    }
  }
  XRUN_CHECK(false, "the case has no such instruction");
}

// Expects that the verifier refuses the edited program with all of these words.
void expect_refused(const std::vector<std::string>& words, const CaseOptions& options,
                    const std::function<void(Program&)>& edit) {
  Case made = make_case(options);
  derive_anew(made.program);
  ASSERT_EQ(complaint(made), "");
  edit(made.program);
  derive_anew(made.program);
  const std::string said = complaint(made);
  for (const std::string& word : words) {
    EXPECT_NE(said.find(word), std::string::npos) << "wanted: " << word << "\nsaid: " << said;
  }
}

void expect_dropped_is_found(const std::vector<std::string>& words, const Wanted& wanted,
                             const CaseOptions& options = {}) {
  expect_refused(words, options, [&](Program& p) {
    const auto [begin, end] = group_at(p, find_index(p, wanted));
    drop(p, begin, end);
  });
}

// Moves the group of the instruction directly after the last computation that reads what the group writes.
void expect_moved_is_found(const std::vector<std::string>& words, const Wanted& wanted,
                           const CaseOptions& options = {}) {
  expect_refused(words, options, [&](Program& p) {
    const auto [begin, end] = group_at(p, find_index(p, wanted));
    std::set<BufferId> written;
    for (size_t i = begin; i < end; ++i) {
      written.insert(p.instructions[i].writes.begin(), p.instructions[i].writes.end());
    }
    size_t reader = 0;
    for (size_t i = end; i < p.instructions.size(); ++i) {
      const auto& reads = p.instructions[i].reads;
      if (!communicates(p.instructions[i].kind) &&
          std::ranges::any_of(reads, [&](BufferId id) { return written.contains(id); })) {
        reader = i;
      }
    }
    ASSERT_GT(reader, 0U) << "no instruction reads what the group writes";
    move(p, begin, end, reader + 1);
  });
}

TEST(SymbolicRun, AMissingGatherOfFeaturesIsFound) {
  expect_dropped_is_found({"(head-forward)", "(layer2.add.gathered)", "lack the rows of `layer2.add`"},
                          gathers_features);
  expect_moved_is_found({"(head-forward)", "lack the rows of"}, gathers_features);
  // The first pass has written the buffer before.
  expect_dropped_is_found({"(head-forward)", "lack the rows of"}, gathers_later_features, kOneReplica);
  expect_moved_is_found({"(head-forward)", "lack the rows of"}, gathers_later_features, kOneReplica);
}

TEST(SymbolicRun, AMissingGatherOfStatisticsIsFound) {
  for (const CaseOptions& options : {CaseOptions(), kApart, kOneReplica}) {
    expect_dropped_is_found({"(reduce-statistics)", "(id.statistics)", "lack the statistics of all shards of `id`"},
                            gathers_statistics, options);
    expect_moved_is_found({"(reduce-statistics)", "lack the statistics of all shards of `id`"}, gathers_statistics,
                          options);
  }
}

TEST(SymbolicRun, ASoftmaxThatLacksAPassIsFound) {
  expect_dropped_is_found({"(head-backward)", "(id.softmax)", "lack the softmax of `id`"}, joins_a_later_pass,
                          kOneReplica);
}

TEST(SymbolicRun, AMissingCopyOfRowsIsFound) {
  expect_dropped_is_found(
      {"(head-update)", "lack"},
      [](const Program& p, const Instruction& one) {
        return copies_to_batch(p, one) && one.device != p.heads[0].shards[0].device;
      },
      kApart);
  expect_dropped_is_found({"lack"}, copies_to_batch, kApart);
  expect_moved_is_found(
      {"(head-update)", "lack"},
      [](const Program& p, const Instruction& one) {
        return copies_to_batch(p, one) && one.device != p.heads[0].shards[0].device;
      },
      kApart);
}

TEST(SymbolicRun, MissingSumsOfSquaresAreFound) {
  for (CaseOptions options : {kClipped, kApart, kOneReplica}) {
    options.clip_heads = true;
    expect_dropped_is_found({"(norms)", "lack the sums of squares of the gradients"}, counts_squares_of_a_head,
                            options);
    expect_dropped_is_found({"(norms)", "lack the sums of squares of the gradients"}, gathers_norms, options);
    expect_moved_is_found({"(norms)", "lack the sums of squares of the gradients"}, gathers_norms, options);
    expect_refused({"(norms)", "lack the sums of squares of the gradients"}, options, [](Program& p) {
      const size_t sweep = find_index(p, counts_squares_of_a_head);
      const size_t gather = find_index(p, gathers_norms);
      move(p, sweep, sweep + 1, group_at(p, gather).second);
    });
  }
}

// The terms that are left are those of neighbouring shards, but no longer all shards of the result.
TEST(SymbolicRun, ASumOnANodeThatLacksItsFirstTermIsFound) {
  Case made = make_case({.replicas = 1, .nodes = 2, .devices = 6, .shards = 6});
  ASSERT_TRUE(verify_values(made.program, made.module).ok());
  Instruction& sum = find(made.program, Kind::kSumDx);
  sum.operands.erase(sum.operands.begin());
  const Status status = verify_values(made.program, made.module);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("has a term of dX for classes"), std::string::npos) << status.error().message;
}

TEST(SymbolicRun, ResultsThatLackRowsAreFound) {
  Case part = make_case(kOneReplica);
  Instruction& last = part.program.instructions[find_index(part.program, joins_a_later_pass)];
  std::erase_if(last.operands,
                [](const Operand& each) { return each.role == Role::kLoss || each.role == Role::kHits; });
  const Status status = verify_values(part.program, part.module);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("at the end of the step"), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("lack the rows of `loss`"), std::string::npos) << status.error().message;

  // The loss has no buffer that is read after the step.
  Case made = make_case({.model = {.layers = 2}});
  for (Buffer& buffer : made.program.buffers) {
    if (buffer.purpose == Purpose::kResult && buffer.value == made.module.graph.loss[0].rows) {
      buffer.purpose = Purpose::kActivation;
    }
  }
  derive_anew(made.program);
  EXPECT_NE(complaint(made).find("`loss` has results of 0 replicas of 2"), std::string::npos) << complaint(made);
}

// A run is quick for many buffers, and for many separate parts of one buffer.
TEST(SymbolicRun, ManyBuffersAndManyPartsAreRunQuickly) {
  constexpr size_t kParts = 40'000;
  constexpr size_t kBuffers = 100'000;
  Case made = make_case({.model = {.layers = 1}});
  Program& program = made.program;
  const auto copies = [&](size_t count, const std::function<void(size_t, Operand&, Operand&)>& set) {
    Instruction copy{.kind = Kind::kCopy, .head = -1};
    for (size_t i = 0; i < count; ++i) {
      Operand from{.role = Role::kFrom, .access = Access::kRead, .bytes = 4};
      Operand to{.role = Role::kTo, .access = Access::kWrite, .bytes = 4};
      set(i, from, to);
      copy.operands.push_back(from);
      copy.operands.push_back(to);
    }
    copy.id = InstructionId(program.instructions.size());
    program.instructions.push_back(std::move(copy));
  };
  const BufferId first(program.buffers.size());
  for (size_t b = 0; b < kBuffers; ++b) {
    program.buffers.push_back({.id = BufferId(program.buffers.size()), .bytes = 4, .replica = -1});
  }
  program.buffers.push_back({.id = BufferId(program.buffers.size()), .bytes = 8 * static_cast<Bytes>(kParts)});
  const BufferId wide = program.buffers.back().id;
  copies(kParts, [&](size_t i, Operand& from, Operand& to) {
    from.buffer = find(program, Purpose::kInput).id;
    from.offset = static_cast<Bytes>(i % 64 * 4);
    to.buffer = wide;
    to.offset = static_cast<Bytes>((kParts - 1 - i) * 8);  // no two parts are adjacent
  });
  copies(kBuffers, [&](size_t i, Operand& from, Operand& to) {
    from.buffer = wide;
    from.offset = static_cast<Bytes>(i % kParts * 4);
    to.buffer = BufferId(static_cast<size_t>(first.index) + i);
  });
  const Seconds begin = thread_processor_time();
  const Status status = verify_values(program, made.module);
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_LT(thread_processor_time() - begin, 2);
}

}  // namespace
}  // namespace xrun::planner::testing
