// The verifier finds exchanges whose blocks do not fit together. An executor would wait for ever or take blocks of
// another exchange.
#include <gtest/gtest.h>
#include <iostream>
#include <random>

#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

// Returns cases that together have every kind of exchange.
std::vector<CaseOptions> cases() {
  return {CaseOptions(),
          {.pipeline = PipelineKind::kOneFOneB},
          {.clip_heads = true},
          {.scaled = true},
          {.scaled = true, .compress = true},
          {.weighted = true},
          {.knn = true},
          {.overlap = false},
          {.compress = true},
          {.bucket = 512},
          {.bucket = 512, .replicas = 4, .nodes = 2, .devices = 8},
          {.compress = true, .per_node = true, .replicas = 4, .nodes = 2, .devices = 8},
          {.scaled = true, .compress = true, .per_node = true, .replicas = 4, .nodes = 2, .devices = 8},
          {.training = false}};
}

// The seed of the edits that a test selects.
uint64_t printed_seed() {
  const char* const given = std::getenv("XRUN_MUTANT_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 51;
  std::cout << "seed " << seed << " (XRUN_MUTANT_SEED)\n";
  return seed;
}

TEST(SymbolicExchange, SwappedOperandsOfTwoExchangesAreFound) {
  int swapped = 0;
  for (const CaseOptions& options : cases()) {
    Case made = make_case(options);
    ASSERT_EQ(complaint(made), "");
    std::vector<size_t> exchanges;
    for (size_t i = 0; i < made.program.instructions.size(); ++i) {
      if (communicates(made.program.instructions[i].kind)) {
        exchanges.push_back(i);
      }
    }
    for (const size_t i : exchanges) {
      for (const size_t j : exchanges) {
        Instruction& a = made.program.instructions[i];
        Instruction& b = made.program.instructions[j];
        if (i >= j || a.device != b.device || a.operands == b.operands) {
          continue;
        }
        const auto swap = [&] {
          std::swap(a.operands, b.operands);
          derive_accesses(a);
          derive_accesses(b);
        };
        swap();
        ++swapped;
        EXPECT_NE(complaint(made), "") << "instructions " << i << " and " << j;
        swap();
      }
    }
  }
  EXPECT_GT(swapped, 3000);
}

// Damages exchanges at operands that a seed selects: one operand less, one more, blocks of another size or for another
// device, two blocks in another order, a run that is longer or shorter, and one with other steps.
TEST(SymbolicExchange, BlocksThatDoNotFitTogetherAreFound) {
  const std::vector<std::function<bool(Instruction&, size_t)>> damages{
      [](Instruction& one, size_t at) {
        one.operands.erase(one.operands.begin() + static_cast<ptrdiff_t>(at));
        return true;
      },
      [](Instruction& one, size_t at) {
        one.operands.push_back(one.operands[at]);
        return true;
      },
      [](Instruction& one, size_t at) {
        one.operands[at].bytes += 4;
        return true;
      },
      [](Instruction& one, size_t at) {
        ++one.operands[at].index;
        return true;
      },
      [](Instruction& one, size_t at) {
        const bool sent = one.operands[at].role == Role::kSent;
        one.operands[at].role = sent ? Role::kReceived : Role::kSent;
        return true;
      },
      [](Instruction& one, size_t at) {
        if (at == 0 || one.operands[at].role != one.operands[at - 1].role ||
            one.operands[at].index != one.operands[at - 1].index ||
            one.operands[at].bytes == one.operands[at - 1].bytes) {
          return false;
        }
        std::swap(one.operands[at], one.operands[at - 1]);
        return true;
      },
      [](Instruction& one, size_t at) {
        ++one.operands[at].count;
        one.operands[at].stride = std::max<int16_t>(1, one.operands[at].stride);
        return true;
      },
      [](Instruction& one, size_t at) { return --one.operands[at].count > 0; },
      [](Instruction& one, size_t at) {
        one.operands[at].step += 4;
        return one.operands[at].count > 1;
      },
      [](Instruction& one, size_t at) {
        ++one.operands[at].stride;
        return one.operands[at].count > 1;
      }};
  std::mt19937_64 random(printed_seed());
  int damaged = 0;
  for (const CaseOptions& options : cases()) {
    Case made = make_case(options);
    EXPECT_TRUE(verify_values(made.program, made.module).ok());
    for (Instruction& one : made.program.instructions) {
      if (!communicates(one.kind)) {
        continue;
      }
      const std::vector<Operand> sound = one.operands;
      for (size_t d = 0; d < damages.size(); ++d) {
        for (size_t at = 0; at < sound.size(); ++at) {
          if (random() % 8 == 0 && damages[d](one, at)) {
            ++damaged;
            EXPECT_FALSE(verify_values(made.program, made.module).ok())
                << "damage " << d << " of operand " << at << " of " << name_of(one.kind) << " " << one.id.index;
          }
          one.operands = sound;
        }
      }
    }
  }
  EXPECT_GT(damaged, 1000);
}

TEST(SymbolicExchange, BlocksOfPersistentBuffersAreFound) {
  expect_operand_found("which cannot be exchanged", [](Program& p) {
    Instruction& gather = find(p, [](const Instruction& one) {
      return one.kind == Kind::kAllGather && std::ranges::count(one.operands, Role::kSent, &Operand::role) > 0;
    });
    Operand& sent = operand(gather, Role::kSent);
    sent.buffer = find_buffer(p, [&](const Buffer& b) {
                    return b.persistent && b.device == gather.device && b.bytes >= sent.offset + sent.bytes;
                  }).id;
  });
}

// The size of a block of pairs follows from the weight of its buffer and the density of a step.
TEST(SymbolicExchange, BlocksOfPairsHaveAllPairsOfASender) {
  expect_operand_found("that is not all pairs of one sender",
                       [](Program& p) {
                         Instruction& gather = find(p, [&](const Instruction& one) {
                           return one.kind == Kind::kAllGather && !one.operands.empty() &&
                                  p.buffer(one.operands[0].buffer).purpose == Purpose::kPairs;
                         });
                         for (Instruction& one : p.instructions) {
                           const size_t count = one.group == gather.group ? one.operands.size() : 0;
                           for (size_t i = 0; i < count; ++i) {  // each block in two halves
                             Operand half = one.operands[i];
                             half.bytes /= 2;
                             one.operands[i].bytes -= half.bytes;
                             half.offset += one.operands[i].bytes;
                             one.operands.push_back(half);
                           }
                         }
                       },
                       {.compress = true});
}

TEST(SymbolicExchange, MessagesNameTheMemberAndTheOtherDevice) {
  Case made = make_case();
  Instruction& gather = find(made.program, Kind::kAllGather);
  drop(gather, Role::kReceived);
  const Status status = verify_values(made.program, made.module);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("a block that it does not receive"), std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace xrun::planner::testing
