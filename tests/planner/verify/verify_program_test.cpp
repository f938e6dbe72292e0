// A sound program is damaged in one place, and must be rejected with a message about the damage. Tests every kind of
// damage.
#include "planner/verify/verify_program.h"

#include "graph/os/processor_time.h"
#include "planner/verify/verify_parts.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

TEST(VerifyProgram, DependenciesThatPointForwardAreFound) {
  expect_found("is not before it", [](Program& p) { p.instructions[3].deps.push_back(InstructionId(9)); });
  expect_found("is not before it", [](Program& p) { p.instructions[3].deps.push_back(InstructionId(3)); });
}

TEST(VerifyProgram, EveryDependencyThatEmitWroteIsNeeded) {
  // Emission leaves out dependencies that others imply, so each of the remaining ones is needed.
  for (const CaseOptions& options : {CaseOptions(), CaseOptions{.replicas = 4, .nodes = 2, .devices = 8}}) {
    const Case made = make_case(options);
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
}

TEST(VerifyProgram, DevicesWithStagesOfTwoReplicasAreFound) {
  expect_found("has stages of another replica", [](Program& p) { p.stages[0].devices[1] = p.stages[0].devices[0]; });
  expect_found("has stages of another replica", [](Program& p) { p.stages[1].devices[1] = p.stages[0].devices[0]; });
}

TEST(VerifyProgram, PipelinesThatDoNotFitTheStagesOfDevicesAreFound) {
  const CaseOptions folded{.pipeline = PipelineKind::kZbV, .stages = 4};
  expect_found(
      "has 2 of the stages, which one_f_one_b does not put on it",
      [](Program& p) { p.schedule = PipelineKind::kOneFOneB; }, folded);
  expect_found("has 1 of the stages, which zb_v does not put on it",
               [](Program& p) { p.schedule = PipelineKind::kZbV; });
  expect_found("a warm-up of -1 passes", [](Program& p) { p.warm_up = -1; });
}

TEST(VerifyProgram, ReadsBeforeWritesAreFound) {
  expect_found("read before it was written", [](Program& p) {
    Instruction& recv = find(p, [](const auto& one) { return one.kind == Kind::kRecv; });
    Buffer& other = p.buffers[static_cast<size_t>(recv.writes[0].index)];
    const BufferId fresh(p.buffers.size());
    Buffer copy = other;
    copy.id = fresh;
    p.buffers.push_back(copy);
    recv.operands[0].buffer = fresh;
  });
}

TEST(VerifyProgram, StatesThatAnotherStageUpdatesAreFound) {
  Case made = make_case();
  Graph& graph = made.module.graph;
  const auto& first = made.program.stages[0].forward;
  const auto bn = std::ranges::find_if(first, [&](NodeId id) { return graph.node(id).op->folds_states; });
  ASSERT_NE(bn, first.end());
  graph.node(made.program.stages[1].forward.back()).inputs.push_back(graph.node(*bn).inputs[3]);
  EXPECT_NE(complaint(made).find("reads a state that stage 0 updates"), std::string::npos) << complaint(made);
}

TEST(VerifyProgram, DamagedGroupsAreFound) {
  expect_found("has members of two kinds", [](Program& p) {
    find(p, [](const auto& one) { return one.kind == Kind::kSend; }).kind = Kind::kAllGather;
  });
  expect_found("has group",
               [](Program& p) { find(p, [](const auto& one) { return one.kind == Kind::kSend; }).group = -1; });
  expect_found("is not in one place",
               [](Program& p) { find(p, [](const auto& one) { return one.kind == Kind::kReduceScatter; }).group = 0; });
  expect_found("sends one thing",
               [](Program& p) { find(p, [](const auto& one) { return one.kind == Kind::kRecv; }).micro_batch += 1; });
}

// A group completes only when all its members are posted. If one member waits for another, the parallel executor would
// wait for ever.
TEST(VerifyProgram, MembersThatWaitForTheirOwnGroupAreFound) {
  for (const Kind kind : {Kind::kSend, Kind::kAllGather, Kind::kReduceScatter}) {
    expect_found("of another device", [kind](Program& p) {
      const InstructionId first = find(p, kind).id;
      p.instructions[static_cast<size_t>(first.index) + 1].deps.push_back(first);
    });
  }
}

// Dependencies point backward, and the members of a group are contiguous: only members of the same group may stand
// between two of them.
TEST(VerifyProgram, MembersThatWaitForTheirOwnGroupIndirectlyAreFound) {
  expect_found("is not before it", [](Program& p) {
    const InstructionId send = find(p, Kind::kSend).id;
    Instruction& behind = find(p, [&](const auto& one) { return one.id > send && one.kind == Kind::kForward; });
    behind.deps.push_back(send);
    p.instructions[static_cast<size_t>(send.index) + 1].deps.push_back(behind.id);
  });
}

TEST(VerifyProgram, InstructionsInTheWrongStreamAreFound) {
  expect_found("is in the stream of what communicates", [](Program& p) {
    find(p, [](const auto& one) { return one.kind == Kind::kBackward; }).stream = Stream::kComm;
  });
  expect_found("is in the stream of what communicates",
               [](Program& p) { find(p, Kind::kUpdate).stream = Stream::kComm; });
  expect_found("is in the stream of what computes",
               [](Program& p) { find(p, Kind::kAllGather).stream = Stream::kCompute; });
  // A program without overlap has only one stream.
  expect_found("is in the stream of what computes", [](Program& p) { p.overlap = true; }, {.overlap = false});
  expect_found("is in the stream of what communicates", [](Program& p) { find(p, Kind::kSend).stream = Stream::kComm; },
               {.overlap = false});
}

TEST(VerifyProgram, ReceivesInAnotherOrderThanSendsAreFound) {
  // Two receives of a device are exchanged together with their numbers, so the members of a pair are no longer
  // contiguous.
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
    find(p, [](const auto& one) { return one.kind == Kind::kForward && one.micro_batch == 1; }).micro_batch = 0;
  });
  expect_found("has no backward pass", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return i.kind == Kind::kBackward && i.micro_batch == 1; });
    one.kind = Kind::kNorm;
  });
  expect_found("is folded after a later one", [](Program& p) {
    Instruction& first = find(p, [](const auto& i) { return i.kind == Kind::kBackward; });
    Instruction& second = find(
        p, [&](const auto& i) { return i.kind == Kind::kBackward && i.device == first.device && i.id != first.id; });
    std::swap(first.micro_batch, second.micro_batch);
  });
  expect_found("leaves out shard", [](Program& p) {
    find(p, [](const auto& i) { return i.kind == Kind::kHeadForward; }).kind = Kind::kNorm;
  });
  expect_found("of a head that has 1",
               [](Program& p) { find(p, [](const auto& i) { return i.kind == Kind::kReduceStats; }).head_pass = 1; });
  expect_found("runs pass",
               [](Program& p) {
                 find(p, [](const auto& i) { return i.kind == Kind::kHeadForward && i.head_pass == 1; }).head_pass = 0;
               },
               {.pipeline = PipelineKind::kOneFOneB});
  expect_found("are never updated", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return i.kind == Kind::kHeadBackward; });
    operand(one, Role::kWeight).access = Access::kRead;
  });
  expect_found("are updated twice", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return i.kind == Kind::kHeadForward && i.shard == 0; });
    operand(one, Role::kWeight).access = Access::kUpdate;
  });
  expect_found("does not run the nodes",
               [](Program& p) { find(p, [](const auto& i) { return i.kind == Kind::kForward; }).nodes.pop_back(); });
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
  EXPECT_TRUE(verify_program(made.program, made.module, kGiB).ok());
  EXPECT_FALSE(verify_program(made.program, made.module, 100 * kKiB).ok());
}

TEST(VerifyProgram, ABufferMovedOntoALiveOneIsFound) {
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

TEST(VerifyProgram, NumbersOutOfRangeAreFound) {
  const std::vector<std::function<void(Program&)>> damages{
      [](Program& p) { p.devices = 0; },
      [](Program& p) { p.threads[0] = 0; },
      [](Program& p) { p.norm_rows = 7; },
      [](Program& p) { p.micro_batches = 3; },
      [](Program& p) { p.partials = 3; },
      [](Program& p) { p.arenas.pop_back(); },
      [](Program& p) { p.stages[1].index = 5; },
      [](Program& p) { p.stages[1].devices[0] = 99; },
      [](Program& p) { p.stages[0].forward[0] = NodeId(1000); },
      [](Program& p) { p.heads[0].feature = ValueId(); },
      [](Program& p) { p.heads[0].class_block = 128; },
      [](Program& p) { p.heads[0].class_block = 96; },
      [](Program& p) { p.heads[0].rows = 8; },
      [](Program& p) { p.heads[0].shards[0].kept_blocks = -1; },
      [](Program& p) { p.heads[0].shards[0].kept_blocks += 1; },
      [](Program& p) { p.heads[0].shards[0].kept_blocks = 0; },
      [](Program& p) { p.buffers[3].offset = 7; },
      [](Program& p) { p.buffers[3].bytes = -1; },
      [](Program& p) { p.buffers[3].id = BufferId(9); },
      [](Program& p) { p.buffers[3].value = ValueId(100000); },
      [](Program& p) { p.instructions[3].device = 77; },
      [](Program& p) { p.instructions[3].operands[0].buffer = BufferId(-1); },
      [](Program& p) { p.instructions[3].operands[0].buffer = BufferId(100000); },
      [](Program& p) { p.instructions[3].operands[0].offset = -64; },
      [](Program& p) { p.instructions[3].operands[0].bytes = int64_t{1} << 60; },
      [](Program& p) { p.instructions[3].operands[0].node = NodeId(100000); },
      [](Program& p) { p.instructions[3].writes.push_back(BufferId(0)); },
      [](Program& p) { p.instructions[3].stage = 77; },
      [](Program& p) { p.instructions[3].id = InstructionId(0); },
      [](Program& p) { p.instructions[0].operands[0].access = Access::kWrite; },
      [](Program& p) { find(p, Kind::kAllGather).kind = Kind::kHeadNorms; },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    Case made = make_case();
    damages[i](made.program);
    EXPECT_NE(complaint(made), "") << "damage " << i;
  }
}

// Returns a program of many devices whose instructions do nothing.
Program make_idle(int devices, size_t instructions) {
  Program program;
  program.devices = devices;
  program.threads.assign(static_cast<size_t>(devices), 1);
  program.batch = 1;
  program.norm_rows = 1;
  for (int device = kHost; device < devices; ++device) {
    program.arenas.push_back({.device = device});
  }
  for (size_t i = 0; i < instructions; ++i) {
    program.instructions.push_back({.id = InstructionId(i), .kind = Kind::kCopy});
  }
  return program;
}

// A crafted file of some megabytes may contain millions of these. Each check must still end quickly.
TEST(VerifyProgram, CraftedGroupsAndDependenciesAreVerifiedQuickly) {
  constexpr size_t kDevices = 1000;
  constexpr size_t kInstructions = 20'000;
  Program group = make_idle(kDevices, kInstructions);
  for (size_t i = 0; i < kInstructions; ++i) {
    Instruction& one = group.instructions[i];
    one.device = static_cast<int>(i % kDevices);
    one.group = i < kDevices ? 0 : -1;
    for (size_t d = 0; i >= kDevices && d < 30; ++d) {
      one.deps.push_back(InstructionId(d * 30));
    }
  }
  EXPECT_TRUE(verify_order(group).ok());
  // Exchanges that each write a part of one buffer are compared only with exchanges of the same bytes.
  Program parts = make_idle(1, 150'000);
  parts.buffers.push_back({.id = BufferId(0), .purpose = Purpose::kWeight, .persistent = true});
  for (Instruction& one : parts.instructions) {
    one.kind = Kind::kRecv;
    one.operands = {{.role = Role::kReceived, .access = Access::kWrite, .offset = 4 * one.id.index, .bytes = 4}};
    one.operands[0].buffer = BufferId(0);
    derive_accesses(one);
  }
  EXPECT_TRUE(verify_order(parts).ok());
  // Each exchange reads what all others have written.
  Program all = parts;
  for (Instruction& one : all.instructions) {
    one.operands.push_back({.role = Role::kSent, .buffer = BufferId(0), .bytes = 4 * count(all.instructions)});
  }
  const Status refused = verify_order(all);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("more than can be verified"), std::string::npos) << refused.error().message;
  Program reads = make_idle(1, 300'000);
  reads.buffers.push_back({.id = BufferId(0), .purpose = Purpose::kWeight, .persistent = true});
  for (Instruction& one : reads.instructions) {
    one.reads = {BufferId(0)};
  }
  EXPECT_TRUE(verify_order(reads).ok());
}

// A run of a few bytes in a file names a block for each device, so blocks are limited as well as the ranges of bytes.
TEST(VerifyProgram, RunsThatNameTooManyBlocksAreFound) {
  constexpr int kDevices = 4095;
  Program program = make_idle(kDevices, 1);
  program.buffers.push_back({.id = BufferId(0), .bytes = 4, .first_use = 0, .last_use = 0});
  Instruction& gather = program.instructions[0];
  gather.kind = Kind::kAllGather;
  gather.operands.assign((size_t{1} << 28) / kDevices,
                         {.role = Role::kSent, .buffer = BufferId(0), .index = 0, .bytes = 4});
  for (Operand& run : gather.operands) {
    run.count = kDevices;
    run.stride = 1;
  }
  derive_accesses(gather);
  const Status most = verify_structure(program, nullptr);
  EXPECT_TRUE(most.ok()) << most.error().message;
  gather.operands.push_back(gather.operands[0]);
  const Status status = verify_structure(program, nullptr);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("more blocks than can be verified"), std::string::npos)
      << status.error().message;
}

// Many buffers use the same bytes one after another, each for one instruction. Some buffers overlap several of them.
TEST(VerifyProgram, ManyBuffersInTheSameBytesAreVerifiedInTheirOrder) {
  constexpr size_t kBuffers = 100'000;
  Program program = make_idle(1, kBuffers);
  program.arenas[1].bytes = program.arenas[1].live_max = 4 * kAlignment;
  for (size_t b = 0; b < kBuffers; ++b) {
    const auto use = static_cast<int32_t>(b);
    const bool wide = b % 100 == 99;
    program.buffers.push_back({.id = BufferId(b),
                               .bytes = (wide ? 4 : 1) * kAlignment,
                               .offset = wide ? 0 : static_cast<Bytes>(b % 4) * kAlignment,
                               .first_use = use,
                               .last_use = use});
    program.instructions[b].writes = {BufferId(b)};
  }
  const Seconds begin = thread_processor_time();
  EXPECT_TRUE(verify_memory(program, 0).ok()) << verify_memory(program, 0).error().message;
  EXPECT_LT(thread_processor_time() - begin, 2);
  // One buffer is still in use when the next one begins.
  program.instructions[50'000].reads = {BufferId(49'996)};
  program.buffers[49'996].last_use = 50'000;
  const Status shared = verify_memory(program, 0);
  ASSERT_FALSE(shared.ok());
  EXPECT_NE(shared.error().message.find("share bytes while both are in use"), std::string::npos);
}

// A later write of some bytes does not hide earlier exchanges that wrote the other bytes.
TEST(VerifyProgram, AReaderWaitsForAllExchangesThatWroteItsBytes) {
  Program program = make_idle(1, 4);
  program.overlap = true;
  program.buffers.push_back({.id = BufferId(0), .purpose = Purpose::kWeight, .persistent = true});
  const auto part = [&](size_t at, Bytes offset, Bytes bytes) {
    Instruction& one = program.instructions[at];
    one.kind = Kind::kRecv;
    one.stream = Stream::kComm;
    one.operands = {
        {.role = Role::kReceived, .access = Access::kWrite, .buffer = BufferId(0), .offset = offset, .bytes = bytes}};
    derive_accesses(one);
  };
  part(0, 0, 10);
  part(1, 10, 10);
  part(2, 0, 5);
  program.instructions[2].deps = {InstructionId(0)};
  program.instructions[3].reads = {BufferId(0)};
  program.instructions[3].deps = {InstructionId(2)};
  const Status hidden = verify_order(program);
  ASSERT_FALSE(hidden.ok());
  EXPECT_NE(hidden.error().message.find("instructions 1 and 3"), std::string::npos) << hidden.error().message;
  program.instructions[3].deps = {InstructionId(1), InstructionId(2)};
  EXPECT_TRUE(verify_order(program).ok());
}

TEST(VerifyProgram, MoreReplicasThanASumSupportsAreRejected) {
  for (const int replicas : {kMostReplicas, kMostReplicas + 1}) {
    Program program = make_idle(replicas, 0);
    program.batch = program.micro_batches = program.replicas = program.partials = replicas;
    EXPECT_EQ(verify_structure(program, nullptr).ok(), replicas == kMostReplicas) << replicas;
  }
}

}  // namespace
}  // namespace xrun::planner::testing
