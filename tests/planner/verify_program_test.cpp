// Each kind of damage is found: a sound program is damaged in one place and must be refused, with words that name it.
#include "planner/verify_program.h"

#include <functional>
#include <gtest/gtest.h>

#include "tests/planner/decisions.h"

namespace xrun::planner::testing {
namespace {

struct Case {
  Module module;
  Program program;
};

// Two stages, two replicas, three shards over five devices: everything that a program can have.
Case make_case(PipelineKind pipeline = PipelineKind::kGpipe, bool deterministic = true) {
  Case made{.module = prepare_training(make_module({.layers = 3, .classes = 900, .head = true, .skips = true}))};
  made.program = emit_layout(made.module, {.stages = 2,
                                           .replicas = 2,
                                           .micro_batches = 4,
                                           .shards = 3,
                                           .devices = 5,
                                           .pipeline = pipeline,
                                           .deterministic = deterministic})
                     .value();
  return made;
}

std::string complaint(const Case& made) {
  const Status status = verify_program(made.program, made.module.graph);
  return status.ok() ? "" : status.error().message;
}

Instruction& find(Program& program, const std::function<bool(const Instruction&)>& wanted) {
  for (Instruction& one : program.instructions) {
    if (wanted(one)) {
      return one;
    }
  }
  XRUN_CHECK(false, "the case has no such instruction");
}

Buffer& find(Program& program, Purpose purpose) {
  for (Buffer& buffer : program.buffers) {
    if (buffer.purpose == purpose && !(buffer.shard > 0)) {
      return buffer;
    }
  }
  XRUN_CHECK(false, "the case has no such buffer");
}

bool is_pass(const Instruction& one, Pass pass) { return one.kind == Kind::kRun && one.pass == pass; }

void expect_found(const std::string& words, const std::function<void(Program&)>& damage,
                  PipelineKind pipeline = PipelineKind::kGpipe) {
  Case made = make_case(pipeline);
  ASSERT_EQ(complaint(made), "");
  damage(made.program);
  const std::string said = complaint(made);
  EXPECT_NE(said.find(words), std::string::npos) << "wanted: " << words << "\nsaid: " << said;
}

TEST(VerifyProgram, DependenciesThatPointForwardAreFound) {
  expect_found("is not before it", [](Program& p) { p.instructions[3].deps.push_back(InstructionId(9)); });
  expect_found("is not before it", [](Program& p) { p.instructions[3].deps.push_back(InstructionId(3)); });
}

TEST(VerifyProgram, EveryDependencyThatEmitWroteIsNeeded) {
  // Dependencies are already without what is implied, so none can be left out.
  const Case made = make_case();
  int removed = 0;
  for (size_t i = 0; i < made.program.instructions.size(); ++i) {
    for (size_t d = 0; d < made.program.instructions[i].deps.size(); ++d) {
      Case damaged = made;
      auto& deps = damaged.program.instructions[i].deps;
      deps.erase(deps.begin() + static_cast<ptrdiff_t>(d));
      ++removed;
      EXPECT_NE(complaint(damaged), "") << "instruction " << i << " without dependency " << d;
    }
  }
  EXPECT_GT(removed, 40);
}

TEST(VerifyProgram, ReadsBeforeWritesAreFound) {
  expect_found("read before it was written", [](Program& p) {
    Instruction& recv = find(p, [](const auto& one) { return one.kind == Kind::kRecv; });
    Buffer& other = p.buffers[static_cast<size_t>(recv.writes[0].index)];
    const BufferId fresh(p.buffers.size());
    Buffer copy = other;
    copy.id = fresh;
    p.buffers.push_back(copy);
    recv.writes[0] = fresh;
  });
}

TEST(VerifyProgram, GroupsThatAreTornApartAreFound) {
  expect_found("has members of two kinds", [](Program& p) {
    find(p, [](const auto& one) { return one.kind == Kind::kSend; }).kind = Kind::kAllGather;
  });
  expect_found("has group",
               [](Program& p) { find(p, [](const auto& one) { return one.kind == Kind::kSend; }).group = -1; });
  expect_found("is not in one place",
               [](Program& p) { find(p, [](const auto& one) { return one.kind == Kind::kAllReduce; }).group = 0; });
  expect_found("sends one thing",
               [](Program& p) { find(p, [](const auto& one) { return one.kind == Kind::kRecv; }).micro_batch += 1; });
  expect_found("of 2 replicas", [](Program& p) {
    Instruction& reduce = find(p, [](const auto& one) { return one.kind == Kind::kAllReduce; });
    reduce.kind = Kind::kCopy;
    reduce.group = -1;
  });
}

TEST(VerifyProgram, ReceivesInAnotherOrderThanSendsAreFound) {
  // Two receives of one device change places, each with its own number: the pairs no longer stand together.
  Case made = make_case();
  std::vector<size_t> receives;
  for (size_t i = 0; i < made.program.instructions.size(); ++i) {
    if (made.program.instructions[i].kind == Kind::kRecv && made.program.instructions[i].device == 1) {
      receives.push_back(i);
    }
  }
  ASSERT_GE(receives.size(), 2u);
  std::swap(made.program.instructions[receives[0]], made.program.instructions[receives[1]]);
  std::swap(made.program.instructions[receives[0]].id, made.program.instructions[receives[1]].id);
  EXPECT_NE(complaint(made), "");
}

TEST(VerifyProgram, ClassRowsOwnedTwiceOrNeverAreFound) {
  expect_found("is owned twice or by nobody", [](Program& p) { p.heads[0].shards[1].row_begin -= 64; });
  expect_found("is owned by nobody", [](Program& p) { p.heads[0].shards.pop_back(); });
  expect_found("inside a class block", [](Program& p) {
    p.heads[0].shards[0].row_end += 1;
    p.heads[0].shards[1].row_begin += 1;
  });
  expect_found("lie in a buffer of", [](Program& p) { find(p, Purpose::kHeadWeight).bytes -= 64; });
  expect_found("lie in 2 buffers", [](Program& p) {
    Buffer copy = find(p, Purpose::kHeadWeight);
    copy.id = BufferId(p.buffers.size());
    p.buffers.push_back(copy);
  });
}

TEST(VerifyProgram, PassesThatAreMissingOrDoneTwiceAreFound) {
  expect_found("once more or elsewhere", [](Program& p) {
    find(p, [](const auto& one) { return is_pass(one, Pass::kForward) && one.micro_batch == 1; }).micro_batch = 0;
  });
  expect_found("has no backward pass", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return is_pass(i, Pass::kBackward); });
    one.pass = Pass::kNorm;
  });
  expect_found("is folded after a later one", [](Program& p) {
    Instruction& first = find(p, [](const auto& i) { return is_pass(i, Pass::kBackward); });
    Instruction& second = find(
        p, [&](const auto& i) { return is_pass(i, Pass::kBackward) && i.device == first.device && i.id != first.id; });
    std::swap(first.micro_batch, second.micro_batch);
  });
  expect_found("leaves out shard", [](Program& p) {
    find(p, [](const auto& i) { return is_pass(i, Pass::kHeadForward); }).pass = Pass::kNorm;
  });
  expect_found(
      "runs pass",
      [](Program& p) {
        find(p, [](const auto& i) { return is_pass(i, Pass::kHeadForward) && i.micro_batch == 1; }).micro_batch = 0;
      },
      PipelineKind::kOneFOneB);
  expect_found("are never updated", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return is_pass(i, Pass::kHeadBackward); });
    std::erase_if(one.writes, [&](BufferId id) { return p.buffer(id).purpose == Purpose::kHeadWeight; });
  });
  expect_found("are updated twice", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return is_pass(i, Pass::kHeadForward) && i.shard == 0; });
    one.writes.push_back(find(p, Purpose::kHeadWeight).id);
  });
  expect_found("does not run the nodes",
               [](Program& p) { find(p, [](const auto& i) { return is_pass(i, Pass::kForward); }).nodes.pop_back(); });
}

TEST(VerifyProgram, MemoryThatIsTooSmallOrSharedIsFound) {
  expect_found("of an arena of", [](Program& p) {
    Buffer* highest = nullptr;
    for (Buffer& buffer : p.buffers) {
      if (buffer.device == 0 && (!highest || buffer.offset + buffer.bytes > highest->offset + highest->bytes)) {
        highest = &buffer;
      }
    }
    highest->offset += 1 << 20;
  });
  expect_found("share bytes while both are in use",
               [](Program& p) { find(p, Purpose::kGradient).offset = find(p, Purpose::kWeight).offset; });
  expect_found("is used from", [](Program& p) { find(p, Purpose::kActivation).last_use -= 1; });
  expect_found("live bytes at most", [](Program& p) { p.arenas[1].live_max -= 64; });
  Case made = make_case();
  EXPECT_TRUE(verify_program(made.program, made.module.graph, kGiB).ok());
  EXPECT_FALSE(verify_program(made.program, made.module.graph, 100 * kKiB).ok());
}

TEST(VerifyProgram, AnyBufferMovedOntoALivingOneIsFound) {
  const Case made = make_case();
  std::mt19937_64 random(5);
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    Case damaged = made;
    auto& buffers = damaged.program.buffers;
    Buffer& a = buffers[random() % buffers.size()];
    const Buffer& b = buffers[random() % buffers.size()];
    const bool alive_together = a.first_use <= b.last_use && b.first_use <= a.last_use;
    if (a.id == b.id || a.device != b.device || a.bytes == 0 || b.bytes == 0 || !alive_together) {
      continue;
    }
    a.offset = b.offset;
    ++found;
    EXPECT_NE(complaint(damaged), "") << a.name << " on " << b.name;
  }
  EXPECT_GT(found, 20);
}

// Operands by themselves: the damage would also show in the sums of memory.
void expect_operand_found(const std::string& words, const std::function<void(Program&)>& damage) {
  Case made = make_case();
  ASSERT_TRUE(verify_operands(made.program, made.module.graph).ok());
  damage(made.program);
  const Status status = verify_operands(made.program, made.module.graph);
  ASSERT_FALSE(status.ok()) << words;
  EXPECT_NE(status.error().message.find(words), std::string::npos) << status.error().message;
}

TEST(VerifyProgram, OperandsWithoutAPlaceAreFound) {
  const auto drop = [](Pass pass, Purpose purpose, bool writes) {
    return [=](Program& p) {
      Instruction& one = find(p, [&](const auto& i) { return is_pass(i, pass) && i.stage == 1; });
      std::erase_if(writes ? one.writes : one.reads, [&](BufferId id) { return p.buffer(id).purpose == purpose; });
    };
  };
  expect_operand_found("that node", drop(Pass::kBackward, Purpose::kActivation, false));
  expect_operand_found("has no place for value", drop(Pass::kBackward, Purpose::kGradient, true));
  expect_operand_found("does not read parameter", drop(Pass::kForward, Purpose::kWeight, false));
  expect_operand_found("bytes of scratch", drop(Pass::kForward, Purpose::kScratch, true));
  expect_operand_found("share bytes in a slice", [](Program& p) {
    for (Stage& stage : p.stages) {
      for (LocalValue& local : stage.backward_layout.locals) {
        local.offset = 0;
      }
    }
  });
  expect_operand_found("bytes in a slice", [](Program& p) { p.stages[0].backward_layout.locals[0].bytes = 4; });
  expect_operand_found("bytes for", [](Program& p) { find(p, Purpose::kOptimizer).bytes -= 64; });
  expect_operand_found("is in two stages", [](Program& p) { p.stages[0].backward.push_back(p.stages[1].backward[0]); });
  expect_operand_found("is in no stage", [](Program& p) { p.stages[0].backward.pop_back(); });
  expect_operand_found("is out of order", [](Program& p) { std::swap(p.stages[0].forward, p.stages[1].forward); });
  expect_operand_found("which is not its own",
                       [](Program& p) { p.stages[0].recomputed.push_back(p.stages[1].forward[0]); });
}

TEST(VerifyProgram, HeadPassesWithoutTheirBuffersAreFound) {
  for (const Purpose purpose : {Purpose::kHeadStats, Purpose::kHeadGradient, Purpose::kHeadScratch}) {
    expect_operand_found("bytes for a head pass", [=](Program& p) { find(p, purpose).bytes -= 64; });
  }
  expect_operand_found("bytes for a head pass", [](Program& p) { find(p, Purpose::kHeadSoftmax).bytes = 8; });
  expect_operand_found("features and labels", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return is_pass(i, Pass::kHeadBackward); });
    std::erase_if(one.reads, [&](BufferId id) { return p.buffer(id).purpose == Purpose::kGathered; });
  });
  expect_found("is not the classifier", [](Program& p) { p.heads[0].node = NodeId(0); });
  expect_found("is not a loss", [](Program& p) { p.heads[0].loss = NodeId(0); });
  expect_found("is not a metric", [](Program& p) { p.heads[0].metrics[0] = NodeId(0); });
}

TEST(VerifyProgram, NumbersOutOfRangeAreFound) {
  const std::vector<std::function<void(Program&)>> damages{
      [](Program& p) { p.devices = 0; },
      [](Program& p) { p.threads[0] = 0; },
      [](Program& p) { p.block_rows = 7; },
      [](Program& p) { p.micro_batches = 3; },
      [](Program& p) { p.lanes = 3; },
      [](Program& p) { p.arenas.pop_back(); },
      [](Program& p) { p.stages[1].index = 5; },
      [](Program& p) { p.stages[1].devices[0] = 99; },
      [](Program& p) { p.stages[0].forward[0] = NodeId(1000); },
      [](Program& p) { p.heads[0].feature = ValueId(); },
      [](Program& p) { p.heads[0].class_block = 128; },
      [](Program& p) { p.heads[0].rows = 8; },
      [](Program& p) { p.buffers[3].offset = 7; },
      [](Program& p) { p.buffers[3].bytes = -1; },
      [](Program& p) { p.buffers[3].id = BufferId(9); },
      [](Program& p) { p.buffers[3].value = ValueId(100000); },
      [](Program& p) { p.instructions[3].device = 77; },
      [](Program& p) { p.instructions[3].writes.push_back(BufferId(-1)); },
      [](Program& p) { p.instructions[3].stage = 77; },
      [](Program& p) { p.instructions[3].id = InstructionId(0); },
      [](Program& p) { p.instructions[0].writes.push_back(p.instructions[0].reads[0]); },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    Case made = make_case();
    damages[i](made.program);
    EXPECT_NE(complaint(made), "") << "damage " << i;
  }
}

}  // namespace
}  // namespace xrun::planner::testing
