// Damage that is found only with the module: operands, sizes of buffers, and the parameters of instructions.
#include <random>

#include "tests/planner/verify/same_results.h"

namespace xrun::planner::testing {
namespace {

const ModelOptions kFp8Head{.layers = 2,
                            .classes = 900,
                            .head = true,
                            .head_bias = true,
                            .head_cosine = true,
                            .weights = RowFormat::kFp8,
                            .states = RowFormat::kBf16};

const ModelOptions kTiedTwice{.layers = 4, .classes = 900, .head = true, .tied = 2};
const ModelOptions kTied{.layers = 4, .classes = 900, .head = true, .tied = 1};

TEST(VerifyModule, OperandsThatAreMissingOrElsewhereAreFound) {
  const auto pass = [](Program& p, Kind kind) -> Instruction& {
    return find(p, [=](const Instruction& one) { return one.kind == kind && one.stage == 1; });
  };
  for (const Role role : {Role::kInput, Role::kOutput, Role::kScratch}) {
    expect_operand_found(role == Role::kScratch ? "and no scratch" : "where its operand",
                         [&](Program& p) { drop(pass(p, Kind::kBackward), role); });
  }
  expect_operand_found("(layer2.bn.weight.gradient) lack zeros; they hold nothing of this step",
                       [&](Program& p) { drop(pass(p, Kind::kBackward), Role::kZeroed); });
  expect_operand_found("lack the old weight `layer1.bn.weight`; they hold the old state 0", [&](Program& p) {
    Instruction& one = pass(p, Kind::kForward);
    const auto weight =
        std::find_if(one.operands.begin(), one.operands.end(), [](const Operand& each) { return each.param.valid(); });
    weight->buffer =
        find_buffer(p, [&](const Buffer& b) { return b.device == one.device && b.id != weight->buffer; }).id;
  });
  expect_operand_found("(backward.scratch), which it also accesses otherwise", [&](Program& p) {
    for (Operand& each : pass(p, Kind::kBackward).operands) {
      each.offset = each.by == By::kWorker && each.role != Role::kScratch ? 0 : each.offset;
    }
  });
  expect_operand_found("bytes for", [](Program& p) { find(p, Purpose::kOptimizer).bytes -= 64; });
  expect_operand_found("is in two stages", [](Program& p) { p.stages[0].backward.push_back(p.stages[1].backward[0]); });
  expect_operand_found("is in no stage", [](Program& p) { p.stages[0].backward.pop_back(); });
  expect_operand_found("is out of order", [](Program& p) { std::swap(p.stages[0].forward, p.stages[1].forward); });
  expect_operand_found("which is not its own",
                       [](Program& p) { p.stages[0].recomputed.push_back(p.stages[1].forward[0]); });
}

// Any change of an operand is found, except those that change nothing: the step of a dX with one partial is not used.
TEST(VerifyModule, AnyChangeOfAnyOperandIsFound) {
  const std::vector<CaseOptions> cases{
      {},
      {.clip_heads = true},
      {.scaled = true},
      {.clip_heads = true, .scaled = true, .compress = true},
      {.scaled = true, .compress = true, .per_node = true, .replicas = 4, .nodes = 2, .devices = 8},
      {.bucket = 1},
      {.replicas = 4, .nodes = 2, .devices = 8},
      {.pipeline = PipelineKind::kOneFOneB},
      {.model = kTied, .clip_heads = true},
      {.training = false},
      {.weighted = true},
      {.pipeline = PipelineKind::kOneFOneB, .weighted = true}};
  const std::vector<std::function<void(Operand&)>> changes{
      [](Operand& o) { o.role = o.role == Role::kInput ? Role::kOutput : Role::kInput; },
      [](Operand& o) { o.access = o.access == Access::kRead ? Access::kUpdate : Access::kRead; },
      [](Operand& o) { o.by = o.by == By::kNothing ? By::kBlock : By::kNothing; },
      [](Operand& o) { o.buffer = BufferId(o.buffer.index + 1); },
      [](Operand& o) { o.node = NodeId(o.node.index + 1); },
      [](Operand& o) { o.param = ParamId(o.param.index + 1); },
      [](Operand& o) { o.index += 1; },
      [](Operand& o) { o.offset += kAlignment; },
      [](Operand& o) { o.bytes += kAlignment; },
      [](Operand& o) { o.step += kAlignment; },
  };
  for (const CaseOptions& options : cases) {
    const Case made = make_case(options);
    ASSERT_EQ(complaint(made), "");
    std::mt19937_64 random(7);
    for (int i = 0; i < 300; ++i) {
      Case damaged = made;
      Instruction& one = damaged.program.instructions[random() % made.program.instructions.size()];
      const size_t at = random() % one.operands.size();
      const size_t change = random() % changes.size();
      changes[change](one.operands[at]);
      // A worker's values may be anywhere in its slice, and kernels check that the scratch after them is large enough.
      if ((one.operands[at].by == By::kWorker && change >= 7) || (one.operands[at].role == Role::kDx && change == 9)) {
        continue;
      }
      if (one.operands[at].buffer.index < static_cast<int32_t>(made.program.buffers.size())) {
        derive_accesses(one);
      }
      EXPECT_NE(complaint(damaged), "") << "instruction " << one.id.index << " (" << name_of(one.kind) << "), operand "
                                        << at << " (" << name_of(one.operands[at].role) << "), change " << change;
    }
  }
}

TEST(VerifyModule, HeadPassesWithoutTheirOperandsAreFound) {
  expect_operand_found("(id.scratch), which has", [](Program& p) { find(p, Purpose::kHeadScratch).bytes -= 64; });
  for (const Role role :
       {Role::kFeature, Role::kLabel, Role::kSoftmax, Role::kDx, Role::kLogits, Role::kWeight, Role::kState}) {
    expect_operand_found("where its operand", [=](Program& p) { drop(find(p, Kind::kHeadBackward), role); });
  }
  for (const Kind kind : {Kind::kHeadBackward, Kind::kReduceStats}) {
    expect_operand_found(
        kind == Kind::kHeadBackward ? "where its operand" : "computes losses without the factors of their rows",
        [=](Program& p) { drop(find(p, kind), Role::kRowFactor); }, {.weighted = true});
  }
  expect_operand_found("combines the statistics of no head of its device",
                       [](Program& p) { find(p, Kind::kReduceStats).shard = 9; });
  expect_operand_found("where its operand", [](Program& p) { drop(find(p, Kind::kHeadForward), Role::kScales); },
                       {.model = kFp8Head});
  expect_found("its classifier differs", [](Program& p) { p.heads[0].node = NodeId(0); });
  expect_found("its loss differs", [](Program& p) { p.heads[0].loss = NodeId(0); });
  expect_found("its list of metrics differs", [](Program& p) { p.heads[0].metrics[0] = NodeId(0); });
}

// Makes one buffer of each kind a few bytes too small.
TEST(VerifyModule, BuffersThatAreTooSmallAreFound) {
  const auto small = [](Purpose purpose, const CaseOptions& options = {}) {
    expect_operand_found(
        " for ", [=](Program& p) { find(p, purpose).bytes -= 4; }, options);
  };
  const CaseOptions biased{.model = {.layers = 2, .classes = 900, .head = true, .head_bias = true}};
  const CaseOptions cosine{.model = {.layers = 2, .classes = 900, .head = true, .head_cosine = true}};
  for (const Purpose purpose :
       {Purpose::kWeight, Purpose::kState, Purpose::kOptimizer, Purpose::kGradient, Purpose::kInput,
        Purpose::kActivation, Purpose::kGathered, Purpose::kResult, Purpose::kHeadWeight, Purpose::kHeadOptimizer,
        Purpose::kHeadStats, Purpose::kHeadGradient, Purpose::kHeadSoftmax, Purpose::kHeadLogits}) {
    small(purpose);
  }
  small(Purpose::kNorms, {.clip_heads = true});
  small(Purpose::kHeadPrepared, cosine);
  const CaseOptions fp8{.model = kFp8Head};
  small(Purpose::kHeadScale, fp8);
  small(Purpose::kHeadWeight, fp8);
  small(Purpose::kHeadOptimizer, fp8);
  expect_operand_found(
      "has 0 bytes for", [](Program& p) { find(p, Purpose::kHeadPrepared).bytes = 0; }, cosine);
  for (const Purpose purpose : {Purpose::kHeadWeight, Purpose::kHeadOptimizer}) {
    const auto shrink = [=](Program& p) {
      find_buffer(p, [&](const Buffer& b) { return b.purpose == purpose && b.param == p.heads[0].bias; }).bytes -= 4;
    };
    expect_operand_found(" for ", shrink, biased);
  }
  // The distance between a gradient's partials follows from the size of its buffer, so the buffer may not be larger
  // either.
  expect_operand_found("for partials of", [](Program& p) { find(p, Purpose::kGradient).bytes += 64; });
}

TEST(VerifyModule, ABufferOfBestClassesThatIsTooSmallIsFound) {
  const auto shrink = [](Program& p) {
    ASSERT_GT(p.heads[0].top_k, 1);
    find_buffer(p, [&](const Buffer& b) { return b.value == p.heads[0].logits; }).bytes = p.batch * 8;
  };
  expect_operand_found(" for ", shrink, {.training = false});
}

// Predictions read the softmax of every row after the step.
TEST(VerifyModule, ASoftmaxThatPredictionsLackIsFound) {
  const auto rename = [](Program& p) { find(p, Purpose::kHeadSoftmax).purpose = Purpose::kHeadScratch; };
  expect_operand_found("has the softmax of", rename, {.training = false});
  const auto number = [](Program& p) {
    ASSERT_EQ(p.heads[0].rows, p.batch);
    find(p, Purpose::kHeadSoftmax).head_pass = 0;
  };
  expect_operand_found("is of no head pass", number, {.training = false});
  // Two buffers have the rows of one pass, so that none has those of the other.
  const auto repeat = [](Program& p) {
    find_buffer(p, [](const Buffer& b) { return b.purpose == Purpose::kHeadSoftmax && b.head_pass == 1; }).head_pass =
        0;
  };
  expect_operand_found("is of no pass without another softmax", repeat,
                       {.pipeline = PipelineKind::kOneFOneB, .training = false});
}

TEST(VerifyModule, AResultThatTheModuleDoesNotAskForIsFound) {
  expect_operand_found("which the module does not ask for", [](Program& p) {
    find_buffer(p, [](const Buffer& b) {
      return b.purpose == Purpose::kActivation && b.micro_batch < 0 && b.value.valid();
    }).purpose = Purpose::kResult;
  });
}

TEST(VerifyModule, BuffersThatBelongToNothingAreFound) {
  const CaseOptions narrow{
      .model = {.layers = 2, .classes = 900, .head = true, .precision = PrecisionMode::kMixedBf16}};
  const std::vector<std::pair<const char*, std::function<void(Buffer&, const Program&)>>> prepared{
      {"node of its device", [](Buffer& b, const Program&) { b.node = NodeId(); }},
      {"node of its device", [](Buffer& b, const Program& p) { b.node = p.heads[0].node; }},
      {"weight that its node reads", [](Buffer& b, const Program&) { b.node_input = 99; }},
      {"weight that its node reads", [](Buffer& b, const Program&) { b.node_input = 0; }},
      {"node of its device", [](Buffer& b, const Program&) { b.replica = 1; }},
  };
  for (const auto& [words, damage] : prepared) {
    expect_found(
        words, [&](Program& p) { damage(find(p, Purpose::kPrepared), p); }, narrow);
  }
  expect_found("parameter or state", [](Program& p) { find(p, Purpose::kOptimizer).state = 7; });
  expect_found("of no state", [](Program& p) { find(p, Purpose::kHeadOptimizer).state = 7; });
  expect_found("parameter of its device", [](Program& p) { find(p, Purpose::kWeight).param = ParamId(); });
  expect_found("parameter of its device", [](Program& p) { find(p, Purpose::kWeight).replica = 1; });
  expect_found("parameter of its device", [](Program& p) { find(p, Purpose::kWeight).param = p.heads[0].weight; });
  expect_found("weight that is trained", [](Program& p) {
    Buffer& gradient = find(p, Purpose::kGradient);
    gradient.value = find(p, Purpose::kActivation).value;
  });
  expect_found("shard of its device", [](Program& p) { find(p, Purpose::kHeadOptimizer).shard = 77; });
  expect_found("weight of its head", [](Program& p) { find(p, Purpose::kHeadOptimizer).param = ParamId(); });
  expect_found("is of no head", [](Program& p) { find(p, Purpose::kHeadStats).head = -1; });
  expect_found("is of no value", [](Program& p) { find(p, Purpose::kResult).value = ValueId(); });
  expect_found("operand or result", [](Program& p) { find(p, Purpose::kGathered).value = p.heads[0].logits; });
  expect_found("does not fit what it is for",
               [](Program& p) { find(p, Purpose::kScratch).value = find(p, Purpose::kActivation).value; });
  expect_operand_found("does not fit what it is for",
                       [](Program& p) { find(p, Purpose::kActivation).persistent = true; });
}

TEST(VerifyModule, SlotNumbersBeyondTheRingAreFound) {
  expect_found("slots up to number", [](Program& p) { find(p, Purpose::kInput).ring = 1 << 30; });
  expect_found("that another has", [](Program& p) { find(p, Purpose::kInput).ring = 1; });
  expect_found("is of no input", [](Program& p) { find(p, Purpose::kInput).value = find(p, Purpose::kResult).value; });
}

TEST(VerifyModule, BuffersThatTheUpdateNeedsAreChecked) {
  const auto lose = [](Purpose purpose) {
    return [=](Program& p) { find(p, purpose).purpose = Purpose::kHeadScratch; };
  };
  const auto unbound = [&](Purpose purpose) {
    return [=](Program& p) {
      Buffer& buffer = find(p, purpose);
      lose(purpose)(p);
      buffer.persistent = false;
      buffer.value = ValueId();
    };
  };
  expect_operand_found("no weight and states", unbound(Purpose::kOptimizer));
  expect_operand_found("lacks a weight", unbound(Purpose::kHeadOptimizer));
  expect_operand_found("lacks a weight, its scales", unbound(Purpose::kHeadScale), {.model = kFp8Head});
  expect_operand_found("no weight and states", unbound(Purpose::kWeight));
}

TEST(VerifyModule, HeadsThatAreNotTheModelsAreFound) {
  const std::vector<std::function<void(HeadPlan&)>> damages{
      [](HeadPlan& h) { h.row_weight = 1; },
      [](HeadPlan& h) { h.bf16 = true; },
      [](HeadPlan& h) { h.feature_grad = {}; },
      [](HeadPlan& h) { h.feature_grad = h.label; },
      [](HeadPlan& h) { h.label = h.feature; },
      [](HeadPlan& h) { h.top_k = 0; },
      [](HeadPlan& h) { h.update_sweep = true; },
      [](HeadPlan& h) { h.metrics.clear(); },
      [](HeadPlan& h) { h.bias = h.weight; },
      [](HeadPlan& h) { h.row_factor = h.label; },
      [](HeadPlan& h) { h.weights = RowFormat::kBf16; },
      [](HeadPlan& h) { h.states = RowFormat::kBf16; },
  };
  for (const auto& damage : damages) {
    expect_operand_found("of the model", [&](Program& p) { damage(p.heads[0]); });
  }
  expect_operand_found("of a model that has 1", [](Program& p) { p.heads.push_back(p.heads[0]); });
  expect_operand_found("of a graph for training", [](Program& p) { p.training = false; });
  expect_operand_found("the model asks for", [](Program& p) { p.batch *= 2; });
}

// Damages the numbers by which the executor finds the other side of an exchange.
const CaseOptions kApart{.pipeline = PipelineKind::kOneFOneB};

// The numbers of the head and of its pass in a copy are for people only.
TEST(VerifyModule, CopiesOverOtherBuffersAreFound) {
  const auto copy = [](const char* words, const std::function<void(Program&, Instruction&)>& damage) {
    expect_operand_found(
        words, [&](Program& p) { damage(p, find(p, Kind::kCopy)); }, kApart);
  };
  expect_same_results(
      [](Program& p) {
        find(p, Kind::kCopy).head = -1;
        find(p, Kind::kCopy).head_pass = -1;
      },
      kApart);
  copy("where its operand", [](Program&, Instruction& one) { drop(one, Role::kTo); });
  copy("too many", [](Program&, Instruction& one) { drop(one, Role::kFrom); });
  for (const Purpose purpose : {Purpose::kWeight, Purpose::kScratch, Purpose::kHeadStats}) {
    for (const Role role : {Role::kFrom, Role::kTo}) {
      copy("instruction", [=](Program& p, Instruction& one) { operand(one, role).buffer = find(p, purpose).id; });
    }
  }
}

// The number of the head in a collective is for people only.
TEST(VerifyModule, CollectivesMayNameNoHead) {
  for (const CaseOptions& options : {CaseOptions{}, kApart}) {
    for (const Purpose purpose : {Purpose::kActivation, Purpose::kHeadStats, Purpose::kHeadGradient}) {
      const auto behead = [=](Program& p) {
        const int group = find(p, [&](const Instruction& one) {
                            return one.group >= 0 && one.head >= 0 && !one.operands.empty() &&
                                   p.buffer(one.operands.back().buffer).purpose == purpose;
                          }).group;
        for (Instruction& one : p.instructions) {
          one.head = one.group == group ? -1 : one.head;
        }
      };
      expect_same_results(behead, options);
    }
  }
}

// Plans of 0.1.0 gather each value of the batch statistics of a stage in an exchange of its own.
TEST(VerifyModule, StatisticsMayBeGatheredApart) {
  Case made = make_case();
  std::vector<Instruction> instructions;
  int groups = 1000;
  std::map<std::pair<int, size_t>, int> group_of;  // key: the group of all statistics, and the position of the value
  for (const Instruction& one : made.program.instructions) {
    const bool statistics = one.kind == Kind::kAllGather && one.head < 0 && one.stage >= 0 &&
                            made.program.buffer(one.operands[0].buffer).purpose == Purpose::kActivation;
    const size_t part = statistics ? 2 * static_cast<size_t>(made.program.replicas) : one.operands.size();
    for (size_t at = 0; at < std::max<size_t>(1, one.operands.size()); at += std::max<size_t>(1, part)) {
      instructions.push_back(one);
      if (statistics) {
        const auto begin = one.operands.begin() + static_cast<std::ptrdiff_t>(at);
        instructions.back().operands.assign(begin, begin + static_cast<std::ptrdiff_t>(part));
        const auto [known, is_new] = group_of.try_emplace({one.group, at}, groups);
        groups += is_new ? 1 : 0;
        instructions.back().group = known->second;
      }
    }
  }
  ASSERT_GT(instructions.size(), made.program.instructions.size()) << "some stage has several statistics";
  const auto is_apart = [](const Instruction& one) { return one.group >= 1000; };
  for (auto at = instructions.begin(); at != instructions.end();) {  // the members of a group are adjacent
    const auto begin = std::find_if(at, instructions.end(), is_apart);
    at = std::find_if_not(begin, instructions.end(), is_apart);
    std::stable_sort(begin, at, [](const Instruction& a, const Instruction& b) { return a.group < b.group; });
  }
  made.program.instructions = instructions;
  const Status apart = verify_module(made.program, made.module);
  EXPECT_TRUE(apart.ok()) << apart.error().message;
  // The second exchange gathers the value of the first one again.
  std::map<int, std::vector<Operand>> of_first;  // key: device
  for (Instruction& one : made.program.instructions) {
    if (one.group == 1000) {
      of_first[one.device] = one.operands;
    } else if (one.group == 1001) {
      one.operands = of_first[one.device];
    }
  }
  const Status twice = verify_module(made.program, made.module);
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().message.find(".bn`; they hold nothing of this step"), std::string::npos)
      << twice.error().message;
}

TEST(VerifyModule, CollectivesOverOtherBuffersAreFound) {
  const auto gather = [](Program& p) -> Instruction& {
    return find(p, [&](const Instruction& one) { return one.gather >= 0 && one.kind == Kind::kAllGather; });
  };
  expect_found("has members of two kinds", [&](Program& p) { gather(p).gather = 1; });
  expect_operand_found("(layer2.add.gathered) lack the rows of `layer2.add`; they hold nothing of this step",
                       [&](Program& p) { gather(p).operands[0].buffer = find(p, Purpose::kGradient).id; });
  expect_operand_found("(all_gather) receives a block that device",
                       [&](Program& p) { gather(p).group = find(p, Kind::kSend).group; });
  // The last block of a run comes first, as an operand of its own.
  expect_same_results([&](Program& p) {
    std::vector<Operand>& operands = gather(p).operands;
    const Operand run = operands[0];
    Operand last = run;
    last.index = run.device(run.count - 1);
    last.offset = run.place(run.count - 1);
    last.count = 1;
    last.stride = 0;
    last.step = 0;
    ASSERT_GT(run.count, 1);
    std::vector<Operand> parts{last};
    append_others(parts, run, last.index);
    parts.insert(parts.end(), operands.begin() + 1, operands.end());
    operands = parts;
  });
  const auto statistics = [](Program& p) -> Instruction& {
    return find(p, [&](const Instruction& one) {
      return one.kind == Kind::kAllGather && one.head < 0 && one.stage >= 0 &&
             p.buffer(one.operands[0].buffer).purpose == Purpose::kActivation;
    });
  };
  expect_found("has members of two kinds", [&](Program& p) {
    Instruction& one = statistics(p);
    one.head = 0;
    one.gather = 3;
  });
  expect_operand_found("(all_gather) sends device 0 a block that it does not receive",
                       [&](Program& p) { drop(statistics(p), Role::kReceived); });
  // All members leave out the last statistics of the stage, a run that is sent and one that is received.
  expect_operand_found(
      "(layer0.bn.2.gathered) lack the rows of result 2 of `layer0.bn`; they hold nothing of this step",
      [&](Program& p) {
        const int group = statistics(p).group;
        for (Instruction& one : p.instructions) {
          one.operands.resize(one.group == group ? one.operands.size() - 2 : one.operands.size());
        }
      });
  const auto terms = [](Program& p) -> Instruction& {
    return find(p, [](const Instruction& one) { return one.kind == Kind::kReduceScatter && one.head >= 0; });
  };
  expect_operand_found("(reduce_scatter) receives a block that device",
                       [&](Program& p) { drop(terms(p), terms(p).operands[0].role); });
  expect_operand_found("(forward.scratch), which has",
                       [&](Program& p) { terms(p).operands[0].buffer = find(p, Purpose::kScratch).id; });
  expect_found("has members of two kinds", [&](Program& p) { terms(p).head_pass += 1; });
  expect_operand_found("where its operand", [](Program& p) { drop(find(p, Kind::kReduceDx), Role::kFeature); });
  expect_operand_found("sums the dX of classes 0 to 0 of 900",
                       [](Program& p) { drop(find(p, Kind::kReduceDx), Role::kDx); });
  expect_operand_found("(forward.scratch), which has", [](Program& p) {
    find(p, Kind::kReduceDx).operands.back().buffer = find(p, Purpose::kScratch).id;
  });
  expect_operand_found("sums the dX of no micro-batch", [](Program& p) { find(p, Kind::kReduceDx).gather = -1; });
  expect_found("sends one thing and receives another", [](Program& p) { find(p, Kind::kSend).micro_batch = -1; });
  expect_operand_found("lack the rows of `layer0.add`; they hold nothing of this step",
                       [](Program& p) { find(p, Kind::kSend).operands[0].buffer = find(p, Purpose::kHeadStats).id; });
}

TEST(VerifyModule, SumsOverReadersOfATiedWeightAreChecked) {
  const CaseOptions tied{.model = kTied};
  ASSERT_EQ(complaint(make_case(tied)), "");
  const auto exchange = [](Program& p) -> Instruction& {
    return find(p, [&](const Instruction& one) {
      return one.kind == Kind::kAllGather && one.stage == 1 && one.head < 0 && !one.operands.empty() &&
             p.buffer(one.operands[0].buffer).purpose == Purpose::kTerms;
    });
  };
  expect_operand_found(
      "(all_gather) receives a block that device", [&](Program& p) { exchange(p).operands.pop_back(); }, tied);
  expect_operand_found(
      "(layer0.linear.weight.terms), which it also accesses otherwise",
      [&](Program& p) { exchange(p).operands.push_back(exchange(p).operands[0]); }, tied);
  expect_operand_found("(norms), which has",
                       [&](Program& p) { exchange(p).operands[0].buffer = find(p, Purpose::kNorms).id; },
                       {.model = kTied, .clip_heads = true});
  expect_found(
      "has members of two kinds", [&](Program& p) { exchange(p).replica = -1; }, tied);
  expect_operand_found(
      "where its operand", [](Program& p) { find(p, Kind::kSumTied).operands.pop_back(); }, tied);
  expect_operand_found(
      "wrong operand", [](Program& p) { find(p, Kind::kSumTied).operands[0].index = 1; }, tied);
  expect_operand_found(
      "lack the gradient of `layer0.linear.weight` summed over all of its readers",
      [](Program& p) {
        const InstructionId id = find(p, Kind::kSumTied).id;
        p.instructions.erase(p.instructions.begin() + id.index);
      },
      tied);
  expect_operand_found(
      "is of no parameter or state",
      [](Program& p) {
        find_buffer(p, [](const Buffer& b) {
          return b.purpose == Purpose::kOptimizer && b.name.find("layer") == 0;
        }).state += 1;
      },
      tied);
  // Two weights in one group, and gradients that are sent before they are summed.
  const CaseOptions two{.model = kTiedTwice};
  const auto weight_of = [](Program& p, const Instruction& one) { return p.buffer(one.operands[0].buffer).param; };
  ASSERT_EQ(complaint(make_case(two)), "");
  expect_operand_found(
      "(layer0.linear.weight.terms) lack the gradient of `layer0.linear.weight` summed over replicas 0 to 1; they hold "
      "the gradient of `layer1.linear.weight`",
      [&](Program& p) {
        Instruction& first = exchange(p);
        Instruction& second = find(p, [&](const Instruction& one) {
          return one.kind == Kind::kAllGather && one.device == first.device && one.head < 0 &&
                 one.group != first.group && !one.operands.empty() &&
                 p.buffer(one.operands[0].buffer).purpose == Purpose::kTerms &&
                 weight_of(p, one) != weight_of(p, first);
        });
        std::swap(first.operands, second.operands);
      },
      two);
}

TEST(VerifyModule, SumsAndUpdatesOverOtherBuffersAreFound) {
  expect_operand_found("lack the gradient of `stem.weight` summed over replicas 0 to 1",
                       [](Program& p) { find(p, Kind::kSumReplicas).operands.pop_back(); });
  expect_operand_found(
      "(layer1.linear.weight.terms) lack the gradient of `layer1.linear.weight` of replica 1", [](Program& p) {
        Instruction& one = find(p, [](const Instruction& i) { return i.kind == Kind::kSumReplicas && i.replica == 1; });
        std::swap(one.operands[0].buffer, one.operands[1].buffer);
      });
  for (const Kind kind : {Kind::kReduceScatter, Kind::kAllGather}) {
    const auto slices = [kind](Program& p) -> Instruction& {
      return find(p, [kind, &p](const Instruction& one) {
        return one.kind == kind && one.head < 0 && p.buffer(one.operands[0].buffer).purpose == Purpose::kGradient;
      });
    };
    expect_operand_found("a block that", [&](Program& p) { slices(p).operands.push_back(slices(p).operands[0]); });
    expect_operand_found("receives 8192 bytes of device 0, which sends 8188",
                         [&](Program& p) { slices(p).operands[0].bytes -= 4; });
  }
  expect_operand_found("of no stage, or elsewhere", [](Program& p) { find(p, Kind::kUpdate).stage = -1; });
  expect_operand_found("(fold-partials) has an operand 0 (sum) too many",
                       [](Program& p) { find(p, Kind::kSumReplicas).kind = Kind::kFoldPartials; });
  expect_operand_found("of replica 0; they hold the complete partial 0 of the gradient of", [](Program& p) {
    const InstructionId id = find(p, Kind::kFoldPartials).id;
    p.instructions.erase(p.instructions.begin() + id.index);
  });
  for (const Role role : {Role::kWeight, Role::kState, Role::kStatistics, Role::kRunningState}) {
    expect_operand_found("where its operand", [=](Program& p) { drop(find(p, Kind::kUpdate), role); });
  }
  const CaseOptions clipped{.clip_heads = true};
  expect_operand_found(
      "where its operand", [](Program& p) { drop(find(p, Kind::kNorm), Role::kNorms); }, clipped);
  // Without the sums of squares, a step with a scale of the loss cannot be skipped.
  for (const Kind kind : {Kind::kUpdate, Kind::kCompress, Kind::kHeadUpdate}) {
    expect_operand_found("where its operand", [=](Program& p) { drop(find(p, kind), Role::kNorms); },
                         {.scaled = true, .compress = kind != Kind::kHeadUpdate});
  }
  expect_operand_found(
      "(head-norms) has a wrong operand 3 (weight)",
      [](Program& p) { find(p, Kind::kHeadUpdate).kind = Kind::kHeadNorms; }, kApart);
}

// Operands with the right contents that an executor cannot use.
TEST(VerifyModule, OperandsThatAnExecutorCannotUseAreFound) {
  expect_operand_found("does not begin at a multiple of 64 bytes", [](Program& p) {
    find(p, Purpose::kHeadScratch).bytes += 64;
    operand(find(p, Kind::kHeadForward), Role::kScratch).offset += 4;
  });
  expect_operand_found("cannot work in buffer",
                       [](Program& p) { find(p, Purpose::kHeadScratch).purpose = Purpose::kScratch; });
  expect_operand_found("which is for another value", [](Program& p) {
    const HeadPlan& head = p.heads[0];
    find_buffer(p, [&](const Buffer& b) { return b.purpose == Purpose::kGathered && b.value == head.feature; }).value =
        head.label;
  });
  // An input is read from any slot of the ring, and these have the bytes of its rows.
  expect_operand_found(
      "accesses bytes",
      [](Program& p) {
        Buffer& input = find(p, Purpose::kInput);
        Operand& from = operand(find(p, Kind::kCopy), Role::kFrom);
        from.buffer = input.id;
        from.offset = input.bytes;
        input.bytes += from.bytes;
      },
      kApart);
  expect_operand_found("has sums of squares at byte",
                       [](Program& p) { operand(find(p, Kind::kNorm), Role::kNorms).offset += 8; },
                       {.clip_heads = true});
  expect_operand_found("a step with 2 partials of gradients", [](Program& p) { p.partials = 2; });
}

}  // namespace
}  // namespace xrun::planner::testing
