// The computations of a concrete run (tests/planner/verify/concrete_run.h): those of heads and of the end of a step.
#pragma once

#include <algorithm>
#include <span>

#include "planner/program/dx_terms.h"
#include "tests/planner/verify/concrete_memory.h"

namespace xrun::planner::testing {

class ConcreteMath {
 public:
  ConcreteMath(const Program& program, ConcreteMemory& memory) : program_(program), memory_(memory) {}

  // Each operand writes a hash of its role and of all that the operands read. Terms of dX are read in their order.
  void compute(const Instruction& one, std::span<const Operand> operands) {
    const auto number = [&](int of_head) { return static_cast<uint64_t>(is_of_head(one.kind) ? of_head + 1 : 0); };
    uint64_t all = mix(static_cast<uint64_t>(one.kind), mix(number(one.head), number(one.shard)));
    uint64_t terms = 0;
    for (const Operand& each : operands) {
      const uint64_t name = name_of(each);
      if (each.role == Role::kDx && each.access == Access::kRead) {
        terms = mix(terms, read_dx(one, each, terms_before(one, each)));
      } else if (each.access != Access::kWrite) {
        all += mix(name, memory_.read(memory_.place(each)));
      }
    }
    for (const Operand& each : operands) {
      const uint64_t seed = mix(mix(all, terms), name_of(each));
      if (each.role == Role::kDx && one.kind == Kind::kSumDx && each.access == Access::kWrite) {
        const std::vector<ClassRange> classes = classes_of_dx_terms(one, head_of(one));
        for (int64_t i = 0; i < subtrees(one, {classes.front().begin, classes.back().end}); ++i) {
          memory_.write(memory_.place(each, i * each.step), seed + static_cast<uint64_t>(i));
        }
      } else if (each.access != Access::kRead) {
        memory_.write(memory_.place(each), seed);
      }
    }
  }

  void sum(const Instruction& one) {
    std::map<int, Place> terms;  // key: replica or reader
    Place own;
    for (size_t i = 0; i < one.operands.size(); ++i) {
      const Operand& each = one.operands[i];
      const bool begins = each.role == Role::kSum;
      own = begins ? memory_.place(each) : own;
      terms[begins && each.index < 0 ? one.replica : each.index] = memory_.place(each);
      if (i + 1 < one.operands.size() && one.operands[i + 1].role == Role::kTerm) {
        continue;
      }
      std::vector<Place> ordered;
      for (const auto& [place, term] : terms) {
        ordered.push_back(term);
      }
      memory_.combine(own, ordered);
      for (const Place& term : ordered) {
        if (term.begin != own.begin) {
          memory_.write(term, 1);
        }
      }
      terms.clear();
    }
  }

  // The operands of a weight follow its gradient, and those of a node are adjacent. All of them read the norms.
  void end_of_step(const Instruction& one) {
    std::vector<Operand> common;
    for (const Operand& each : one.operands) {
      if (each.role == Role::kNorms && !each.param.valid()) {
        common.push_back(each);
      }
    }
    for (size_t i = 0; i < one.operands.size();) {
      const Operand& first = one.operands[i];
      std::vector<Operand> unit = common;
      size_t end = i;
      const auto belongs = [&](const Operand& each) {
        return each.role != Role::kGradient && each.role != Role::kPrepared && each.node == first.node;
      };
      for (; end < one.operands.size() && (end == i || belongs(one.operands[end])); ++end) {
        unit.push_back(one.operands[end]);
      }
      i = end;
      if (one.kind == Kind::kFoldPartials) {
        fold(first);
      } else if (first.role == Role::kPrepared) {
        prepare(one, first);
      } else {
        compute(one, unit);
      }
    }
  }

 private:
  const HeadPlan& head_of(const Instruction& one) const { return program_.heads[static_cast<size_t>(one.head)]; }
  int64_t subtrees(const Instruction& one, const ClassRange& classes) const {
    const ClassBlocks blocks = head_of(one).blocks();
    return static_cast<int64_t>(blocks.subtrees(blocks.of_rows(classes)).size());
  }
  static size_t terms_before(const Instruction& one, const Operand& term) {
    return static_cast<size_t>(std::count_if(&one.operands[0], &term, [](const Operand& each) {
      return each.role == Role::kDx && each.access == Access::kRead;
    }));
  }
  uint64_t read_dx(const Instruction& one, const Operand& term, size_t number) {
    const ClassRange classes = classes_of_dx_terms(one, head_of(one))[number];
    uint64_t hash = static_cast<uint64_t>(classes.begin * 1000 + classes.end);
    for (int64_t i = 0; i < subtrees(one, classes); ++i) {
      hash = mix(hash, memory_.read(memory_.place(term, i * term.step)));
    }
    return hash;
  }
  static uint64_t name_of(const Operand& each) {
    const auto number = [](int32_t index) { return static_cast<uint64_t>(index + 1); };
    const uint64_t index = each.role == Role::kDx ? 0 : number(each.index);
    return mix(mix(static_cast<uint64_t>(each.role), index), mix(number(each.param.index), number(each.node.index)));
  }

  void fold(const Operand& gradient) {
    std::vector<Place> partials;
    for (int64_t i = 0; i < program_.partials_of_replica(); ++i) {
      partials.push_back(memory_.place(gradient, i * gradient.step));
    }
    memory_.combine(partials.front(), partials);
    for (size_t i = 1; i < partials.size(); ++i) {
      memory_.write(partials[i], 1);
    }
  }

  void prepare(const Instruction& one, const Operand& prepared) {
    for (const Operand& each : one.operands) {
      if (each.role == Role::kWeight && each.param == prepared.param) {
        memory_.write(memory_.place(prepared), mix(memory_.read(memory_.place(each)), name_of(prepared)));
      }
    }
  }

  const Program& program_;
  ConcreteMemory& memory_;
};

}  // namespace xrun::planner::testing
