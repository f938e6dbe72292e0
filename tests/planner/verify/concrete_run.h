// Runs a program on bytes, as the executor does, with hashes in place of the arithmetic: what an instruction writes is
// a hash of all that it reads. Two programs of one plan compute alike if they end with equal bytes. Buffers are at
// their offsets in the arenas, so buffers that share bytes overwrite each other. The roles of operands are bound as by
// runtime/device/cpu/. A pass of a CPU runs all nodes on one row block after the other, a pass of a GPU each node on
// all row blocks.
#pragma once

#include <span>

#include "tests/planner/verify/concrete_math.h"

namespace xrun::planner::testing {

class ConcreteRun {
 public:
  ConcreteRun(const Program& program, uint64_t seed)
      : program_(program), memory_(program, seed), math_(program, memory_) {}

  std::map<std::string, uint64_t> run() {
    const auto& all = program_.instructions;
    for (size_t i = 0; i < all.size();) {
      size_t end = i + 1;
      while (all[i].group >= 0 && end < all.size() && all[end].group == all[i].group) {
        ++end;
      }
      communicates(all[i].kind) ? exchange(i, end) : run(all[i]);
      i = end;
    }
    return memory_.results();
  }

 private:
  void run(const Instruction& one) {
    if (is_stage_pass(one.kind)) {
      stage_pass(one);
    } else if (one.kind == Kind::kCopy) {
      for (size_t i = 0; i + 1 < one.operands.size(); i += 2) {
        const uint8_t* const from = memory_.data(memory_.place(one.operands[i]));
        std::copy_n(from, one.operands[i].bytes, memory_.data(memory_.place(one.operands[i + 1])));
      }
    } else if (one.kind == Kind::kSumReplicas || one.kind == Kind::kSumTied) {
      math_.sum(one);
    } else if (is_of_head(one.kind)) {
      math_.compute(one, one.operands);
    } else {
      math_.end_of_step(one);
    }
  }

  void exchange(size_t begin, size_t end) {
    std::map<std::pair<int, int>, std::vector<std::vector<uint8_t>>> sent;
    std::map<std::pair<int, int>, size_t> taken;
    for (const Role role : {Role::kSent, Role::kReceived}) {
      for (size_t i = begin; i < end; ++i) {
        const Instruction& one = program_.instructions[i];
        for (const Operand& each : one.operands) {
          for (int k = 0; k < each.count && each.role == role; ++k) {
            uint8_t* const data = memory_.data(memory_.place(each, each.step * k));
            const int other = each.device(k);
            if (role == Role::kSent) {
              sent[{one.device, other}].emplace_back(data, data + each.bytes);
            } else {
              std::ranges::copy(sent[{other, one.device}].at(taken[{other, one.device}]++), data);
            }
          }
        }
      }
    }
  }

  void stage_pass(const Instruction& one) {
    const int64_t blocks = program_.micro_batch_rows() / program_.norm_rows;
    const int64_t first = blocks * one.micro_batch;
    const Operand* const kernels = one.operands.back().role == Role::kScratch ? &one.operands.back() : nullptr;
    for (const Operand& each : one.operands) {
      if (each.role == Role::kZeroed) {
        std::fill_n(memory_.data(memory_.place(each)), each.bytes, uint8_t{0});
      }
    }
    const std::span<const Operand> all = one.operands;
    const auto run_blocks = [&](std::span<const Operand> operands) {
      for (int64_t block = first; block < first + blocks; ++block) {
        run_block(operands, block, first, kernels);
      }
    };
    for (size_t begin = 0; begin < all.size() && !program_.gpu.empty();) {
      size_t end = begin + 1;
      while (end < all.size() && all[end].node == all[begin].node) {
        ++end;
      }
      run_blocks(all.subspan(begin, end - begin));
      begin = end;
    }
    if (program_.gpu.empty()) {
      run_blocks(all);
    }
  }

  // Runs the nodes of some operands on a row block.
  void run_block(std::span<const Operand> operands, int64_t block, int64_t first, const Operand* kernels) {
    NodeId node;
    uint64_t inputs = 0;
    bool used = false;  // whether the kernel of the node has used its scratch memory
    for (const Operand& each : operands) {
      if (each.role != Role::kInput && each.role != Role::kOutput) {
        continue;
      }
      if (each.node != node) {
        node = each.node;
        inputs = static_cast<uint64_t>(node.index);
        used = false;
      }
      const Bytes at = each.by == By::kBlock     ? each.step * (block - first)
                       : each.by == By::kPartial ? each.step * (program_.partial_of(block) - program_.partial_of(first))
                                                 : 0;
      const Place place = memory_.place(each, at);
      if (each.role == Role::kInput) {
        inputs = mix(inputs, memory_.read(place));
        continue;
      }
      if (kernels != nullptr && !used) {
        memory_.write(memory_.place(*kernels), inputs);
      }
      used = true;
      const uint64_t old = each.by == By::kPartial ? memory_.read(place) : 0;
      memory_.write(place, mix(mix(inputs, old), static_cast<uint64_t>(block * 64 + each.index)));
    }
  }

  const Program& program_;
  ConcreteMemory memory_;
  ConcreteMath math_;
};

}  // namespace xrun::planner::testing
