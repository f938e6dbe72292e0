// Damage that only the module can show: operands, sizes of buffers, and what instructions work on.
#include "tests/planner/verify_case.h"

namespace xrun::planner::testing {
namespace {

TEST(VerifyOperands, OperandsWithoutAPlaceAreFound) {
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

TEST(VerifyOperands, HeadPassesWithoutTheirBuffersAreFound) {
  expect_operand_found("scratch for a head pass", [](Program& p) { find(p, Purpose::kHeadScratch).bytes -= 64; });
  expect_operand_found("features and labels", [](Program& p) {
    Instruction& one = find(p, [](const auto& i) { return is_pass(i, Pass::kHeadBackward); });
    std::erase_if(one.reads, [&](BufferId id) { return p.buffer(id).purpose == Purpose::kGathered; });
  });
  expect_found("is not the classifier", [](Program& p) { p.heads[0].node = NodeId(0); });
  expect_found("is not a loss", [](Program& p) { p.heads[0].loss = NodeId(0); });
  expect_found("is not a metric", [](Program& p) { p.heads[0].metrics[0] = NodeId(0); });
}

// Every other kind of buffer, one step too small.
TEST(VerifyOperands, BuffersThatAreTooSmallAreFound) {
  const auto small = [](Purpose purpose, const CaseOptions& options = {}) {
    expect_operand_found(
        " for ", [=](Program& p) { find(p, purpose).bytes -= 4; }, options);
  };
  const CaseOptions biased{.model = {.layers = 2, .classes = 900, .head = true, .head_bias = true}};
  const CaseOptions cosine{.model = {.layers = 2, .classes = 900, .head = true, .head_cosine = true}};
  for (const Purpose purpose :
       {Purpose::kWeight, Purpose::kState, Purpose::kOptimizer, Purpose::kGradient, Purpose::kInput,
        Purpose::kActivation, Purpose::kGathered, Purpose::kResult, Purpose::kHeadWeight, Purpose::kHeadOptimizer,
        Purpose::kHeadStats, Purpose::kHeadGradient, Purpose::kHeadSoftmax}) {
    small(purpose);
  }
  small(Purpose::kNorms, {.clip_heads = true});
  small(Purpose::kHeadPrepared, cosine);
  expect_operand_found(
      "has 0 bytes for", [](Program& p) { find(p, Purpose::kHeadPrepared).bytes = 0; }, cosine);
  for (const Purpose purpose : {Purpose::kHeadWeight, Purpose::kHeadOptimizer}) {
    const auto shrink = [=](Program& p) {
      find_buffer(p, [&](const Buffer& b) { return b.purpose == purpose && b.param == p.heads[0].bias; }).bytes -= 4;
    };
    expect_operand_found(" for ", shrink, biased);
  }
  // A gradient's partials are found by their distance: no larger either.
  expect_operand_found("for partials of", [](Program& p) { find(p, Purpose::kGradient).bytes += 64; });
}

TEST(VerifyOperands, BestClassesOfLogitsHaveAllTheirRows) {
  const auto shrink = [](Program& p) {
    ASSERT_GT(p.heads[0].top_k, 1);
    find_buffer(p, [&](const Buffer& b) { return b.value == p.heads[0].logits; }).bytes = p.batch * 8;
  };
  expect_operand_found(" for ", shrink, {.training = false});
}

TEST(VerifyOperands, BuffersOfNothingAreFound) {
  const CaseOptions narrow{
      .model = {.layers = 2, .classes = 900, .head = true, .precision = PrecisionMode::kMixedBf16}};
  const std::vector<std::pair<const char*, std::function<void(Buffer&, const Program&)>>> prepared{
      {"node of its device", [](Buffer& b, const Program&) { b.node = NodeId(); }},
      {"node of its device", [](Buffer& b, const Program& p) { b.node = p.heads[0].node; }},
      {"weight that its node reads", [](Buffer& b, const Program&) { b.slot = 99; }},
      {"weight that its node reads", [](Buffer& b, const Program&) { b.slot = 0; }},
      {"node of its device", [](Buffer& b, const Program&) { b.replica = 1; }},
  };
  for (const auto& [words, damage] : prepared) {
    expect_found(
        words, [&](Program& p) { damage(find(p, Purpose::kPrepared), p); }, narrow);
  }
  expect_found("parameter or state", [](Program& p) { find(p, Purpose::kOptimizer).slot = 7; });
  expect_found("of no state", [](Program& p) { find(p, Purpose::kHeadOptimizer).slot = 7; });
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

TEST(VerifyOperands, SlotsThatTheRingCannotHaveAreFound) {
  expect_found("slots up to number", [](Program& p) { find(p, Purpose::kInput).slot = 1 << 30; });
  expect_found("that another has", [](Program& p) { find(p, Purpose::kInput).slot = 1; });
  expect_found("is of no input", [](Program& p) { find(p, Purpose::kInput).value = find(p, Purpose::kResult).value; });
}

TEST(VerifyOperands, WhatTheUpdateTakesForGrantedIsThere) {
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
  expect_operand_found("no weight and states", unbound(Purpose::kWeight));
}

TEST(VerifyOperands, HeadsThatAreNotTheModelsAreFound) {
  const std::vector<std::function<void(HeadPlan&)>> damages{
      [](HeadPlan& h) { h.row_weight = 1; },      [](HeadPlan& h) { h.bf16 = true; },
      [](HeadPlan& h) { h.feature_grad = {}; },   [](HeadPlan& h) { h.feature_grad = h.label; },
      [](HeadPlan& h) { h.label = h.feature; },   [](HeadPlan& h) { h.top_k = 0; },
      [](HeadPlan& h) { h.update_sweep = true; }, [](HeadPlan& h) { h.metrics.clear(); },
      [](HeadPlan& h) { h.bias = h.weight; },
  };
  for (const auto& damage : damages) {
    expect_operand_found("of the model", [&](Program& p) { damage(p.heads[0]); });
  }
  expect_operand_found("of a model that has 1", [](Program& p) { p.heads.push_back(p.heads[0]); });
  expect_operand_found("of a graph for training", [](Program& p) { p.training = false; });
  expect_operand_found("the model asks for", [](Program& p) { p.batch *= 2; });
}

// The numbers by which the executor looks up the other side.
const CaseOptions kApart{.pipeline = PipelineKind::kOneFOneB};

TEST(VerifyOperands, CopiesOfNoHeadOrToOtherRowsAreFound) {
  const auto copy = [](const char* words, const std::function<void(Program&, Instruction&)>& damage) {
    expect_operand_found(
        words, [&](Program& p) { damage(p, find(p, Kind::kCopy)); }, kApart);
  };
  expect_found(
      "of head -1", [](Program& p) { find(p, Kind::kCopy).head = -1; }, kApart);
  copy("to 1 for", [](Program&, Instruction& one) { one.reads.clear(); });
  copy("for pass -1", [](Program&, Instruction& one) { one.micro_batch = -1; });
  copy("for pass 2", [](Program&, Instruction& one) { one.micro_batch = 2; });
  copy("cannot work on", [](Program& p, Instruction& one) { one.reads[0] = find(p, Purpose::kWeight).id; });
  copy("cannot work on", [](Program& p, Instruction& one) { one.writes[0] = find(p, Purpose::kScratch).id; });
  copy("cannot work on", [](Program& p, Instruction& one) { one.reads[0] = find(p, Purpose::kHeadSoftmax).id; });
}

TEST(VerifyOperands, CollectivesOfNoHeadAreFound) {
  for (const CaseOptions& options : {CaseOptions{}, kApart}) {
    for (const Purpose purpose : {Purpose::kActivation, Purpose::kHeadStats, Purpose::kHeadGradient}) {
      const auto behead = [=](Program& p) {
        const int group =
            find(p, [&](const Instruction& one) {
              return one.group >= 0 && one.head >= 0 && !one.reads.empty() && p.buffer(one.reads[0]).purpose == purpose;
            }).group;
        for (Instruction& one : p.instructions) {
          one.head = one.group == group ? -1 : one.head;
        }
      };
      expect_found(purpose == Purpose::kHeadGradient ? "is of no head" : "cannot work on", behead, options);
    }
  }
}

TEST(VerifyOperands, CollectivesOverOtherBuffersAreFound) {
  const auto feature_gather = [](Program& p) -> Instruction& {
    return find(p, [&](const Instruction& one) {
      return one.kind == Kind::kAllGather && one.head >= 0 && !one.reads.empty() &&
             p.buffer(one.reads[0]).purpose == Purpose::kActivation;
    });
  };
  expect_operand_found("cannot work on", [&](Program& p) { feature_gather(p).micro_batch = 1; });
  expect_operand_found("cannot work on", [&](Program& p) { feature_gather(p).micro_batch = -1; });
  expect_operand_found("cannot work on",
                       [&](Program& p) { feature_gather(p).reads[0] = find(p, Purpose::kGradient).id; });
  const auto statistics = [](Program& p) -> Instruction& {
    return find(p, [&](const Instruction& one) { return one.kind == Kind::kAllGather && one.head < 0; });
  };
  expect_operand_found("cannot work on", [&](Program& p) { statistics(p).head = 0; });
  expect_operand_found("cannot work on", [&](Program& p) { statistics(p).writes = statistics(p).reads; });
  const auto scatter = [](Program& p) -> Instruction& {
    return find(p, [](const Instruction& one) { return one.kind == Kind::kReduceScatter && !one.writes.empty(); });
  };
  expect_operand_found("cannot work on", [&](Program& p) {
    std::erase_if(scatter(p).reads, [&](BufferId id) { return p.buffer(id).purpose == Purpose::kActivation; });
  });
  expect_operand_found("cannot work on", [&](Program& p) { scatter(p).writes = {find(p, Purpose::kScratch).id}; });
  expect_operand_found("lacks what shard", [&](Program& p) {
    const int group = scatter(p).group;
    for (Instruction& one : p.instructions) {
      if (one.group == group) {
        std::erase_if(one.reads, [&](BufferId id) { return p.buffer(id).purpose == Purpose::kHeadGradient; });
      }
    }
  });
  expect_operand_found("carries 1 buffers of micro-batch -1",
                       [](Program& p) { find(p, Kind::kSend).micro_batch = -1; });
  expect_operand_found("cannot work on",
                       [](Program& p) { find(p, Kind::kSend).reads = {find(p, Purpose::kHeadStats).id}; });
}

TEST(VerifyOperands, SumsAndUpdatesOverOtherBuffersAreFound) {
  expect_operand_found("sums", [](Program& p) { find(p, Kind::kAllReduce).writes.pop_back(); });
  expect_found("sums", [](Program& p) {
    Instruction& one = find(p, [](const Instruction& i) { return i.kind == Kind::kAllReduce && i.replica == 1; });
    one.reads.pop_back();
    one.writes.pop_back();
  });
  expect_found("cannot work on", [](Program& p) {
    Instruction& one = find(p, [](const Instruction& i) { return i.kind == Kind::kAllReduce && i.replica == 1; });
    std::swap(one.reads[0], one.reads[1]);
    std::swap(one.writes[0], one.writes[1]);
  });
  expect_operand_found("of no stage, or elsewhere", [](Program& p) { find(p, Kind::kUpdate).stage = -1; });
  expect_operand_found("not all statistics", [](Program& p) {
    Instruction& one = find(p, Kind::kUpdate);
    std::erase_if(one.reads, [&](BufferId id) { return p.buffer(id).purpose == Purpose::kGathered; });
  });
  expect_operand_found("cannot work on", [](Program& p) {
    Instruction& one = find(p, Kind::kUpdate);
    std::erase_if(one.writes, [&](BufferId id) { return p.buffer(id).purpose == Purpose::kWeight; });
  });
  const CaseOptions clipped{.clip_heads = true};
  expect_operand_found(
      "no place for its sums",
      [](Program& p) { find(p, [](const auto& i) { return is_pass(i, Pass::kNorm); }).writes.clear(); }, clipped);
  expect_operand_found(
      "that its head does not have",
      [](Program& p) { find(p, [](const auto& i) { return is_pass(i, Pass::kHeadUpdate); }).pass = Pass::kHeadNorms; },
      kApart);
}

}  // namespace
}  // namespace xrun::planner::testing
