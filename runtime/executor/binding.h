// Values to addresses: where each operand of each call of a stage pass lies, found once when the program is bound.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "planner/program.h"
#include "runtime/executor/bound_memory.h"
#include "runtime/executor/kernels.h"

namespace xrun::runtime {

// How the address of an operand follows from the row block that is worked on.
struct Operand {
  enum class Where : uint8_t {
    kAbsent,   // an output that nothing wants
    kFixed,    // parameters, whole: base
    kScratch,  // the worker's slice: slice + offset
    kBlock,    // base + stride · block of the global batch
    kPartial,  // base + stride · partial of the global batch
    kInput,    // the step's slot of input `input`: slot + stride · block of the global batch
  };
  Where where = Where::kAbsent;
  int32_t input = -1;
  std::byte* base = nullptr;  // kBlock, kPartial: of block 0 or partial 0 of the batch, which may lie before the buffer
  Bytes offset = 0;           // kScratch
  Bytes stride = 0;
};

// One call of a kernel, with its operands: inputs, then outputs, from `first_operand`.
struct BoundNode {
  NodeId node;
  const ops::Kernel* kernel = nullptr;
  int32_t first_operand = 0;
  int32_t inputs = 0;
  int32_t outputs = 0;
};

// A stage pass of one micro-batch of one replica.
struct BoundPass {
  std::vector<BoundNode> nodes;
  std::vector<Operand> operands;
  std::vector<Operand> watched;              // f32 or bf16 values that leave the pass and must be finite
  std::vector<ValueId> watched_values;       // of `watched`
  std::vector<std::span<std::byte>> zeroed;  // accumulators that this pass is the first to touch
  int64_t first_block = 0;                   // of the global batch
  int64_t blocks = 0;
  std::byte* scratch = nullptr;
  Bytes slice = 0;  // bytes between the slices of two workers
  Bytes kernel_offset = 0;
  int device = 0;
};

// Partial of a row block (DETERMINISM 2).
constexpr int64_t partial_of(int64_t block, int64_t partials, int64_t blocks) { return block * partials / blocks; }

class Binder {
 public:
  Binder(const Graph& graph, const planner::Program& program, const BoundMemory& memory, const KernelSet& kernels);

  // Of a kRun with kForward or kBackward. A program without a place for an operand is a broken promise of the planner.
  BoundPass bind(const planner::Instruction& instruction) const;

  // The buffer of a parameter on a replica; null when there is none.
  const planner::Buffer* find_param(ParamId param, planner::Purpose purpose, int replica, int slot = 0,
                                    int shard = -1) const;
  // Index in Graph::inputs; -1 for values that are none.
  int input_of(ValueId value) const;

 private:
  Operand find_operand(const planner::Instruction& instruction, const planner::BlockLayout& layout, NodeId node,
                       int input, ValueId value) const;
  Operand operand_of(const planner::Buffer& buffer) const;

  const Graph& graph_;
  const planner::Program& program_;
  const BoundMemory& memory_;
  const KernelSet& kernels_;
  std::unordered_map<ParamId, std::vector<const planner::Buffer*>> by_param_;
  std::unordered_map<NodeId, std::vector<const planner::Buffer*>> prepared_;
  std::unordered_map<ValueId, int32_t> inputs_;         // index in Graph::inputs
  std::vector<bool> watched_;                           // by value
  std::vector<planner::InstructionId> first_backward_;  // by buffer: the first backward pass that writes it
};

}  // namespace xrun::runtime
