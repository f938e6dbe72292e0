// Programs with compressed gradients: the instructions that emission makes, and damage that the verifier finds.
#include <map>
#include <set>

#include "graph/layouts/compression.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/links.h"
#include "tests/planner/verify/verify_case.h"

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
  expect_found("(stem.weight.pairs) lack the pairs of `stem.weight`; they hold nothing", [](Program& p) {
    Instruction& one = find(p, [](const Instruction& i) { return i.kind == Kind::kCompress && i.replica == 1; });
    operand(one, Role::kPairs).offset = 0;  // the memory of replica 0's pairs
  });
  expect_found("lack the old state 0 of the optimizer for `stem.weight`", [](Program& p) {
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

TEST(VerifyCompression, PairsThatNoExchangeDeliversAreFound) {
  expect_found("(all_gather) sends device 0 a block that it does not receive", [](Program& p) {
    Instruction& one = find(p, [&](const Instruction& i) { return is_gather_of_pairs(p, i); });
    std::erase_if(one.operands, [](const Operand& each) { return each.role == Role::kReceived; });
  });
  expect_found("has a block of 160 bytes in buffer", [](Program& p) {
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

// Two nodes with two replicas each; stage 0 is on devices 0 and 2, and on 4 and 6.
const CaseOptions kByNode{.compress = true, .per_node = true, .replicas = 4, .nodes = 2, .devices = 8};

void expect_found_by_node(const std::string& words, const std::function<void(Program&)>& damage) {
  testing::expect_found(words, damage, kByNode);
}

bool is_compressed_terms(const Case& made, const Instruction& one) {
  const ParamId param =
      one.head < 0 && one.kind == Kind::kReduceScatter ? made.program.buffer(one.operands[0].buffer).param : ParamId();
  return param.valid() && is_compressed(made.module.train, made.module.graph, param);
}

// Returns the first sum of gradients that are compressed afterwards.
Instruction& sum_before_compression(Program& p) {
  const InstructionId first = find(p, Kind::kCompress).id;
  return find(p, [&](const Instruction& one) { return one.kind == Kind::kSumReplicas && one.id < first; });
}

TEST(VerifyCompression, ProgramsThatCompressByNodeAreSoundOnEveryNumberOfNodes) {
  for (const int nodes : {1, 2, 4}) {
    for (const Bytes bucket : {Bytes{0}, Bytes{1}}) {
      for (const bool overlap : {false, true}) {
        CaseOptions options = kByNode;
        options.nodes = nodes;
        options.bucket = bucket;
        options.overlap = overlap;
        const Case made = make_case(options);
        EXPECT_EQ(testing::complaint(made), "") << nodes << " nodes, buckets of " << bucket;
        EXPECT_EQ(made.program.senders(), nodes);
      }
    }
  }
}

// Each replica of a node sends a gradient to the replica of its node that owns it, and the owner sends its pairs to all
// replicas.
TEST(VerifyCompression, NodesSumWholeGradientsBeforeOneReplicaCompressesThem) {
  const Case made = make_case(kByNode);
  const Program& program = made.program;
  std::map<int, std::set<ParamId>> owned;  // weights that each replica owns
  for (const Instruction& one : program.instructions) {
    if (is_compressed_terms(made, one)) {
      for (const Operand& each : one.operands) {
        EXPECT_EQ(each.index / 4, one.device / 4) << "inside a node";
      }
    }
    for (const Operand& each : one.operands) {
      if (one.kind == Kind::kCompress && each.role == Role::kGradient) {
        owned[one.replica].insert(each.param);
      }
    }
  }
  EXPECT_EQ(owned[0], owned[2]);
  EXPECT_EQ(owned[1], owned[3]);
  for (const ParamId param : owned[0]) {
    EXPECT_FALSE(owned[1].contains(param));
  }
  EXPECT_FALSE(owned[1].empty());
}

TEST(VerifyCompression, ALinkTransfersThePairsOfANodeOnce) {
  const auto sent = [](bool per_node) {
    CaseOptions options = kByNode;
    options.per_node = per_node;
    const Case made = make_case(options);
    Machine machine{.devices = 8, .device_nodes = {0, 0, 0, 0, 1, 1, 1, 1}};
    machine.ranks = 2;
    Bytes bytes = 0;  // bytes that node 0 sends
    std::set<int> known;
    const auto loads = link_loads(made.program, machine);
    for (const Instruction& one : made.program.instructions) {
      EXPECT_FALSE(is_compressed_terms(made, one) && loads.contains(one.group)) << "sums stay inside a node";
      if (is_gather_of_pairs(made.program, one) && known.insert(one.group).second) {
        bytes += loads.at(one.group).links()[0].sent;
      }
    }
    return bytes;
  };
  EXPECT_EQ(sent(false), 2 * sent(true));
  EXPECT_GT(sent(true), 0);
}

TEST(VerifyCompression, ANumberOfSendersThatDoesNotFitIsFound) {
  for (const int count : {0, 3, 4, -1}) {
    expect_found_by_node("replicas compress together", [&](Program& p) { p.sender_replicas = count; });
  }
  expect_found_by_node("the model asks for compression by node", [](Program& p) { p.sender_replicas = 1; });
  CaseOptions by_replica = kByNode;
  by_replica.per_node = false;
  testing::expect_found(
      "by replica or none", [](Program& p) { p.sender_replicas = 2; }, by_replica);
}

TEST(VerifyCompression, DamagedSumsOfANodeAreFound) {
  const auto expect_operands = [](const std::string& words, const std::function<void(Program&)>& damage) {
    expect_operand_found(words, damage, kByNode);
  };
  expect_operands(
      "(stem.weight.gradient) lack the gradient of `stem.weight` summed over "
      "replicas 0 to 1",
      [](Program& p) {
        const InstructionId sum = sum_before_compression(p).id;
        std::erase_if(p.instructions, [&](const Instruction& one) { return one.id == sum; });
      });
  expect_operands("(layer1.linear.weight.terms) lack the gradient of `layer1.linear.weight` of replica 1",
                  [](Program& p) {
                    const ParamId summed = operand(sum_before_compression(p), Role::kSum).param;
                    const int group = find(p, [&](const Instruction& one) {
                                        return one.kind == Kind::kReduceScatter && one.head < 0 &&
                                               p.buffer(one.operands[0].buffer).param == summed;
                                      }).group;
                    std::erase_if(p.instructions, [&](const Instruction& one) { return one.group == group; });
                  });
  expect_operands("has the term of replica 3 where",
                  [](Program& p) { operand(sum_before_compression(p), Role::kTerm).index = 3; });
  expect_operands("has the term of replica 1 where replicas 2 to 3 are next", [](Program& p) {
    const auto sum = p.instructions.begin() + sum_before_compression(p).id.index;
    const auto last = std::ranges::find_if(p.instructions.rbegin(), p.instructions.rend(), [&](const Instruction& one) {
      return one.kind == Kind::kCompress && one.replica == sum->replica && one.stage == sum->stage;
    });
    const Instruction again = *sum;
    p.instructions.insert(last.base(), again);
  });
  expect_operands("lack the pairs of `stem.weight`; they hold nothing", [](Program& p) {
    Instruction& one = find(p, Kind::kCompress);
    one.operands.erase(one.operands.begin(), one.operands.begin() + 5);
  });
}

TEST(VerifyCompression, AReplicaThatDoesNotOwnAWeightHasNoResidualOfIt) {
  expect_operand_found(
      "parameter or state",
      [](Program& p) {
        Buffer& residual = find(p, Purpose::kResidual);
        const Buffer& other = find_buffer(p, [&](const Buffer& buffer) {
          return buffer.purpose == Purpose::kWeight && buffer.param == residual.param &&
                 buffer.device != residual.device;
        });
        residual.device = other.device;
        residual.replica = other.replica;
      },
      kByNode);
}

}  // namespace
}  // namespace xrun::planner
