// Every instruction, group, member and operand of random programs is dropped, doubled, moved, or exchanged with another
// one, and all else is derived anew. The numbers of instructions get other values. The verifier refuses each such
// program, or the program computes the same: both are then run on bytes (tests/planner/verify/concrete_run.h).
//   XRUN_ALL_PLANS=1: all mutants of 400 programs instead of every eighth one of 40
#include "tests/planner/verify/mutants.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <random>

#include "planner/verify/verify_parts.h"
#include "tests/planner/verify/concrete_run.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {
namespace {

using Random = std::mt19937_64;

CaseOptions random_options(Random& random, int number) {
  const auto pick = [&](std::initializer_list<int> from) { return *(from.begin() + random() % from.size()); };
  const auto one_in = [&](uint64_t n) { return random() % n == 0; };
  CaseOptions options{.model = {.layers = pick({1, 2}), .input = 8, .width = 8, .batch = 16, .norm_rows = 2}};
  options.model.head = number % 3 != 2;
  options.model.classes = options.model.head ? pick({150, 300}) : 10;
  options.model.head_bias = one_in(2);
  options.model.head_cosine = !options.model.head_bias && one_in(2);
  options.model.norm = one_in(2);
  options.model.skips = one_in(2);
  options.model.tied = options.model.layers == 2 && one_in(3) ? 1 : 0;
  constexpr PipelineKind kKinds[] = {PipelineKind::kGpipe, PipelineKind::kOneFOneB, PipelineKind::kZeroBubble,
                                     PipelineKind::kZbV};
  options.pipeline = kKinds[number % 4];
  options.clip_heads = one_in(2);
  options.overlap = !one_in(4);
  options.scaled = !options.clip_heads && one_in(4);
  options.weighted = options.model.head && one_in(3);
  options.knn = options.model.head && one_in(4);
  options.compress = one_in(3);
  options.bucket = one_in(3) ? 200 : 0;
  options.early_buckets = one_in(2);
  options.training = !one_in(8);
  options.stages = pick({1, 2});
  const int chunks = PipelineHint{.kind = options.pipeline}.stages_of_device();
  if (chunks > 1) {
    options.stages = chunks;
    options.model.tied = 0;  // stages of a device may not share a weight
  }
  options.replicas = pick({1, 2, 2});
  options.micro_batches = pick({2, 4});
  options.recompute_seed = one_in(3) ? 7 : 0;
  options.nodes = pick({1, 2});
  options.shards = pick({1, 2, 3});
  options.devices = std::max(options.stages / chunks * options.replicas, options.nodes) + pick({0, 1});
  options.gpus = !options.knn && !options.compress && one_in(2);
  return options;
}

struct Mutant {
  std::string text;
  Program program;
};

int unused_group(const Program& program) {
  int last = -1;
  for (const Instruction& one : program.instructions) {
    last = std::max(last, one.group);
  }
  return last + 1;
}

template <typename Visit>
void visit_instructions(const Program& sound, Random& random, const Visit& visit) {
  const size_t count = sound.instructions.size();
  for (size_t i = 0; i < count; ++i) {
    const auto [begin, end] = group_at(sound, i);
    for (const bool whole : {false, true}) {
      const size_t first = whole ? begin : i;
      const size_t last = whole ? end : i + 1;
      if (whole && (end - begin < 2 || begin != i)) {
        continue;
      }
      const auto edit = [&](const char* what, const std::function<void(Program&)>& change) {
        Mutant mutant{fmt::format("{} {} {} ({})", what, whole ? "group of" : "instruction", i,
                                  name_of(sound.instructions[i].kind)),
                      sound};
        change(mutant.program);
        visit(std::move(mutant));
      };
      edit("drop", [&](Program& p) { drop(p, first, last); });
      edit("double", [&](Program& p) {
        std::vector<Instruction> copies(sound.instructions.begin() + static_cast<ptrdiff_t>(first),
                                        sound.instructions.begin() + static_cast<ptrdiff_t>(last));
        for (Instruction& copy : copies) {
          copy.group = whole ? unused_group(sound) : copy.group;
        }
        p.instructions.insert(p.instructions.begin() + static_cast<ptrdiff_t>(last), copies.begin(), copies.end());
      });
      for (const size_t to : {random() % count, std::min(last + 1 + random() % 8, count)}) {
        edit(fmt::format("move to {}", to).c_str(), [&](Program& p) { move(p, first, last, to); });
      }
      const auto [other, other_end] = group_at(sound, random() % count);
      if (other > first) {
        edit(fmt::format("exchange with {}", other).c_str(), [&](Program& p) {
          move(p, other, other_end, first);
          move(p, first + other_end - other, last + other_end - other, other_end);
        });
      }
    }
  }
}

template <typename Visit>
void visit_operands(const Program& sound, Random& random, const Visit& visit) {
  for (size_t i = 0; i < sound.instructions.size(); ++i) {
    const std::vector<Operand>& operands = sound.instructions[i].operands;
    for (size_t at = 0; at < operands.size(); ++at) {
      const auto edit = [&](const char* what, const std::function<void(Program&, std::vector<Operand>&)>& change) {
        Mutant mutant{fmt::format("{} operand {} ({}) of instruction {} ({})", what, at, name_of(operands[at].role), i,
                                  name_of(sound.instructions[i].kind)),
                      sound};
        change(mutant.program, mutant.program.instructions[i].operands);
        visit(std::move(mutant));
      };
      const auto place = [at](std::vector<Operand>& all) { return all.begin() + static_cast<ptrdiff_t>(at); };
      edit("drop", [&](Program&, auto& all) { all.erase(place(all)); });
      edit("double", [&](Program&, auto& all) { all.insert(place(all), Operand(all[at])); });
      const size_t to = random() % operands.size();
      if (to != at) {
        edit("move", [&](Program&, auto& all) {
          const Operand moved = all[at];
          all.erase(place(all));
          all.insert(all.begin() + static_cast<ptrdiff_t>(to), moved);
        });
        edit("exchange", [&](Program&, auto& all) { std::swap(all[at], all[to]); });
      }
      const size_t other = random() % sound.instructions.size();
      if (!sound.instructions[other].operands.empty()) {
        edit("exchange with another instruction's", [&](Program& p, auto& all) {
          auto& others = p.instructions[other].operands;
          std::swap(all[at], others[random() % others.size()]);
        });
      }
      // An operand that differs from another one of its role in one field.
      const Operand& like =
          sound.instructions[other].operands.empty() ? operands[at] : sound.instructions[other].operands.front();
      edit("another buffer in", [&](Program&, auto& all) { all[at].buffer = like.buffer; });
      edit("another offset in", [&](Program&, auto& all) { all[at].offset += 64; });
      if (operands[at].count > 1) {
        edit("a longer run in", [&](Program&, auto& all) { ++all[at].count; });
        edit("a shorter run in", [&](Program&, auto& all) { --all[at].count; });
        edit("another step in", [&](Program&, auto& all) { all[at].step += 64; });
      }
    }
  }
}

// Gives a number of an instruction, or of all members of its group, another value.
template <typename Visit>
void visit_numbers(const Program& sound, const Visit& visit) {
  const std::pair<const char*, int Instruction::*> numbers[] = {{"stage", &Instruction::stage},
                                                                {"replica", &Instruction::replica},
                                                                {"micro-batch", &Instruction::micro_batch},
                                                                {"head", &Instruction::head},
                                                                {"head pass", &Instruction::head_pass},
                                                                {"gather", &Instruction::gather},
                                                                {"shard", &Instruction::shard}};
  for (size_t i = 0; i < sound.instructions.size(); ++i) {
    const auto [begin, end] = group_at(sound, i);
    for (const auto& [name, number] : numbers) {
      for (int value = -1; value < 3; ++value) {
        for (const bool whole : {false, true}) {
          if (value == sound.instructions[i].*number || (whole && (end - begin < 2 || begin != i))) {
            continue;
          }
          Mutant mutant{fmt::format("{} {} of {} {} ({})", name, value, whole ? "the group of" : "instruction", i,
                                    name_of(sound.instructions[i].kind)),
                        sound};
          for (size_t at = whole ? begin : i; at < (whole ? end : i + 1); ++at) {
            mutant.program.instructions[at].*number = value;
          }
          visit(std::move(mutant));
        }
      }
    }
  }
}

class Mutants {
 public:
  explicit Mutants(const Case& made) : made_(made), wanted_(ConcreteRun(made.program, 1).run()) {
    EXPECT_EQ(wanted_, ConcreteRun(made.program, 2).run()) << "the program reads bytes that it does not write";
  }

  void check(Mutant mutant) {
    ++count_;
    derive_numbers(mutant.program);
    if (!refuses(mutant.program)) {
      derive_anew(mutant.program);
      const Status status = verify_program(mutant.program, made_.module);
      if (status.ok()) {
        ++accepted_;
        EXPECT_EQ(ConcreteRun(mutant.program, 3).run(), wanted_) << mutant.text;
        return;
      }
    }
  }

  int64_t count() const { return count_; }
  int64_t accepted() const { return accepted_; }

 private:
  // Whether a check refuses the program that needs neither its memory nor its dependences.
  bool refuses(const Program& program) const {
    const Module& module = made_.module;
    return !verify_structure(program, &module.graph).ok() || !verify_passes(program).ok() ||
           !verify_values(program, module).ok();
  }

  const Case& made_;
  std::map<std::string, uint64_t> wanted_;
  int64_t count_ = 0;
  int64_t accepted_ = 0;
};

bool checks_all() {
  const char* const all = std::getenv("XRUN_ALL_PLANS");
  return all != nullptr && *all == '1';
}

uint64_t printed_seed() {
  const char* const given = std::getenv("XRUN_MUTANT_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 51;
  std::cout << "seed " << seed << " (XRUN_MUTANT_SEED)\n";
  return seed;
}

TEST(Mutants, AreRefusedOrComputeTheSame) {
  const bool full = checks_all();
  const uint64_t seed = printed_seed();
  Random random(seed);
  int64_t count = 0;
  int64_t accepted = 0;
  for (int number = 0; number < (full ? 400 : 40); ++number) {
    const CaseOptions options = random_options(random, number);
    Case made = make_case(options);
    ASSERT_EQ(complaint(made), "") << "program " << number;
    SCOPED_TRACE(fmt::format("program {} of seed {}", number, seed));
    Mutants mutants(made);
    const auto check = [&](Mutant mutant) {
      if (full || random() % 8 == 0) {
        mutants.check(std::move(mutant));
      }
    };
    visit_instructions(made.program, random, check);
    visit_operands(made.program, random, check);
    std::cout << "program " << number << ": " << made.program.instructions.size() << " instructions, "
              << mutants.count() << " mutants, " << mutants.accepted() << " of them compute the same\n";
    count += mutants.count();
    accepted += mutants.accepted();
  }
  EXPECT_GT(count, 1000);
  EXPECT_LT(accepted * 5, count) << "most edits change what is computed";
}

TEST(Mutants, WithOtherNumbersAreRefusedOrComputeTheSame) {
  const ModelOptions small{
      .layers = 4, .input = 8, .width = 8, .classes = 900, .head = true, .tied = 1, .batch = 16, .norm_rows = 2};
  const CaseOptions cases[] = {
      {.model = small, .replicas = 4, .nodes = 2, .devices = 8},
      {.model = small, .replicas = 1, .nodes = 2, .devices = 6, .shards = 6},
      {.model = small, .clip_heads = true, .compress = true, .per_node = true, .replicas = 4, .nodes = 2, .devices = 8},
      {.model = small, .knn = true, .overlap = false},
      {.model = small, .training = false}};
  Random random(printed_seed());
  for (const CaseOptions& options : cases) {
    Case made = make_case(options);
    ASSERT_EQ(complaint(made), "");
    Mutants mutants(made);
    visit_numbers(made.program, [&](Mutant mutant) {
      if (checks_all() || random() % 48 == 0) {
        mutants.check(std::move(mutant));
      }
    });
    for (int Program::*const number : {&Program::node_replicas, &Program::sender_replicas}) {
      for (int value = 0; value <= 8; ++value) {
        Mutant mutant{fmt::format("{} for {} replicas per node or sender", value, made.program.*number), made.program};
        mutant.program.*number = value;
        mutants.check(std::move(mutant));
      }
    }
    EXPECT_GT(mutants.count(), mutants.accepted());
    EXPECT_GT(mutants.accepted(), 0);
    std::cout << mutants.count() << " mutants, " << mutants.accepted() << " of them compute the same\n";
  }
}

}  // namespace
}  // namespace xrun::planner::testing
