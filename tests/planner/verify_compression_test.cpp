// Programs with compressed gradients: what emission makes of them, and what the verifier finds in damaged ones.
#include "graph/compression.h"
#include "planner/buffer_sizes.h"
#include "tests/planner/verify_case.h"

namespace xrun::planner {
namespace {

using testing::Case;
using testing::CaseOptions;
using testing::expect_operand_found;
using testing::find;
using testing::find_buffer;
using testing::make_case;
using testing::operand;

const CaseOptions kCompressed{.compress = true};

bool is_gather_of_pairs(const Program& program, const Instruction& one) {
  return one.kind == Kind::kAllGather && !one.operands.empty() &&
         program.buffer(one.operands[0].buffer).purpose == Purpose::kPairs;
}

void expect_found(const std::string& words, const std::function<void(Program&)>& damage) {
  testing::expect_found(words, damage, kCompressed);
}

TEST(VerifyCompression, CompressedProgramsAreSoundWithEveryClip) {
  for (const bool clip : {false, true}) {
    for (const bool overlap : {false, true}) {
      for (const PipelineKind pipeline : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
        const Case made = make_case({.pipeline = pipeline, .clip_heads = clip, .overlap = overlap, .compress = true});
        EXPECT_EQ(testing::complaint(made), "");
      }
    }
  }
}

TEST(VerifyCompression, EachReplicaOfAStageCompressesOnceAndSendsItsPairsToTheOthers) {
  const Case made = make_case(kCompressed);
  int compressions = 0;
  int gathers = 0;
  for (const Instruction& one : made.program.instructions) {
    compressions += one.kind == Kind::kCompress ? 1 : 0;
    if (is_gather_of_pairs(made.program, one)) {
      ++gathers;
      Bytes sent = 0;
      Bytes pairs = 0;
      for (const Operand& each : one.operands) {
        sent += each.role == Role::kSent ? each.bytes : 0;
        pairs += each.role == Role::kSent ? pairs_bytes(made.module, made.program.buffer(each.buffer).param) : 0;
      }
      EXPECT_EQ(sent, pairs);
      EXPECT_EQ(one.bytes, sent * made.program.replicas) << "by which its time is predicted";
    }
    if (one.kind == Kind::kSumReplicas) {
      for (const Operand& each : one.operands) {
        EXPECT_FALSE(is_compressed(made.module.train, made.module.graph, each.param)) << "is not summed densely, too";
      }
    }
  }
  EXPECT_EQ(compressions, 4) << "two stages of two replicas";
  EXPECT_EQ(gathers, 4);
}

TEST(VerifyCompression, ACompressionWithAnotherPlaceOrStateIsFound) {
  expect_found("wrong operand", [](Program& p) {
    Instruction& one = find(p, [](const Instruction& i) { return i.kind == Kind::kCompress && i.replica == 1; });
    operand(one, Role::kPairs).offset = 0;  // the place of replica 0
  });
  expect_found("cannot work on", [](Program& p) {
    Instruction& one = find(p, Kind::kCompress);
    operand(one, Role::kState).buffer =
        find_buffer(p, [&](const Buffer& buffer) {
          return buffer.purpose == Purpose::kResidual && buffer.state == 1 && buffer.device == one.device;
        }).id;
  });
  expect_found("is read before it was written", [](Program& p) {
    Instruction& one = find(p, Kind::kCompress);
    one.operands.erase(one.operands.begin(), one.operands.begin() + 5);
  });
}

TEST(VerifyCompression, AMissingCompressionIsFound) {
  expect_found("is read before it was written", [](Program& p) { find(p, Kind::kCompress).operands.clear(); });
}

TEST(VerifyCompression, PairsThatNoExchangeBringsAreFound) {
  expect_found("has sent where", [](Program& p) {
    Instruction& one = find(p, [&](const Instruction& i) { return is_gather_of_pairs(p, i); });
    std::erase_if(one.operands, [](const Operand& each) { return each.role == Role::kReceived; });
  });
  expect_found("wrong operand", [](Program& p) {
    Instruction& one = find(p, [&](const Instruction& i) { return is_gather_of_pairs(p, i); });
    operand(one, Role::kSent).bytes -= 8;
  });
}

TEST(VerifyCompression, BuffersOfAnotherKindOrSizeAreFound) {
  expect_operand_found(
      "has", [](Program& p) { find(p, Purpose::kPairs).bytes -= 8; }, kCompressed);
  expect_found("parameter or state", [](Program& p) { find(p, Purpose::kResidual).state = 2; });
  expect_found("parameter or state", [](Program& p) { find(p, Purpose::kOptimizer).purpose = Purpose::kResidual; });
  testing::expect_found("compressed gradient of its device",
                        [](Program& p) { find(p, Purpose::kTerms).purpose = Purpose::kPairs; });
}

}  // namespace
}  // namespace xrun::planner
