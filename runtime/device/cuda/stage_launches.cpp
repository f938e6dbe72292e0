// Tests: tests/cuda/cuda_backend_test.cpp
#include "runtime/device/cuda/stage_launches.h"

#include <span>
#include <utility>
#include <vector>

#include "ops/gpu/launch/gradient_launches.h"
#include "runtime/device/cuda/bound_launches.h"

namespace xrun::cuda {
namespace {

using planner::By;
using planner::Instruction;
using planner::Operand;
using planner::Role;

struct BlockRange {
  int64_t begin = 0;  // counted over the whole batch
  int64_t end = 0;
};

// Memory that a pass sets to zero before it adds to it.
struct Zeroed {
  CUdeviceptr address = 0;
  Bytes bytes = 0;
};

class PassWork final : public BoundWork {
 public:
  Status queue(const runtime::StepContext& step, Stream& stream) override {
    for (const Zeroed& range : zeroed) {
      XRUN_TRY(stream.fill(range.address, std::byte{0}, range.bytes));
    }
    return launches.queue(step, stream);
  }

  std::vector<Zeroed> zeroed;
  BoundLaunches launches;
};

// The operands of a node, one after another.
struct NodeOperands {
  NodeId node;
  std::span<const Operand> operands;  // inputs, then outputs

  bool adds() const {
    return std::ranges::any_of(operands, [](const Operand& operand) { return operand.by == By::kPartial; });
  }
};

class PassBinder {
 public:
  PassBinder(const Module& module, const planner::Program& program, const runtime::Binder& binder,
             const Instruction& pass, const BoundDevice& device)
      : graph_(module.graph), program_(program), binder_(binder), pass_(pass), device_(device) {
    const int64_t blocks = program.micro_batch_rows() / program.norm_rows;
    blocks_ = {blocks * pass.micro_batch, blocks * (pass.micro_batch + 1)};
  }

  Status bind(const NodeKernels& kernels, const WatchedWords& watched, PassWork& work) const {
    CUdeviceptr scratch = 0;
    for (const Operand& operand : pass_.operands) {
      if (operand.role == Role::kZeroed) {
        work.zeroed.push_back({address(operand), operand.bytes});
      } else if (operand.role == Role::kScratch) {
        scratch = address(operand);
      }
    }
    for (const NodeOperands& node : nodes()) {
      for (const BlockRange run : runs_of(node)) {
        const auto launches = kernels.of(node.node)->launches(run.end - run.begin);
        XRUN_TRY(work.launches.add(device_.kernels, launches, addresses(node, run, scratch)));
      }
    }
    for (const Operand& operand : pass_.operands) {
      XRUN_TRY(watch(operand, watched, work));
    }
    return {};
  }

 private:
  CUdeviceptr address(const Operand& operand) const { return reinterpret_cast<CUdeviceptr>(binder_.at(operand)); }

  CUdeviceptr address(const Operand& operand, BlockRange run) const {
    const int64_t moved = operand.by == By::kBlock ? run.begin - blocks_.begin
                          : operand.by == By::kPartial
                              ? program_.partial_of(run.begin) - program_.partial_of(blocks_.begin)
                              : 0;
    return address(operand) + static_cast<CUdeviceptr>(operand.step * moved);
  }

  std::vector<NodeOperands> nodes() const {
    std::vector<NodeOperands> nodes;
    for (size_t i = 0; i < pass_.operands.size();) {
      const Operand& first = pass_.operands[i];
      if (first.role != Role::kInput && first.role != Role::kOutput) {
        ++i;
        continue;
      }
      const Node& node = graph_.node(first.node);
      const size_t count = node.inputs.size() + node.outputs.size();
      nodes.push_back({first.node, std::span(pass_.operands).subspan(i, count)});
      i += count;
    }
    return nodes;
  }

  // The row blocks of each call of a node, in ascending order.
  std::vector<BlockRange> runs_of(const NodeOperands& node) const {
    if (!node.adds()) {
      return {blocks_};
    }
    std::vector<BlockRange> runs;
    for (int64_t block = blocks_.begin; block < blocks_.end; ++block) {
      if (runs.empty() || program_.partial_of(block) != program_.partial_of(block - 1)) {
        runs.push_back({block, block});
      }
      runs.back().end = block + 1;
    }
    return runs;
  }

  CallAddresses addresses(const NodeOperands& node, BlockRange run, CUdeviceptr scratch) const {
    CallAddresses at{.scratch = scratch, .flags = device_.memory.flags(), .first_row = run.begin * program_.norm_rows};
    for (const Operand& operand : node.operands) {
      (operand.role == Role::kInput ? at.inputs : at.outputs).push_back(address(operand, run));
    }
    return at;
  }

  // Adds the check of an output, if it is watched.
  Status watch(const Operand& operand, const WatchedWords& watched, PassWork& work) const {
    if (operand.role != Role::kOutput) {
      return {};
    }
    const ValueId value = graph_.node(operand.node).outputs[static_cast<size_t>(operand.index)];
    const int64_t word = watched.word_of(pass_, value);
    if (word < 0) {
      return {};
    }
    const TensorType& type = graph_.value(value).type;
    const int64_t elements = type.elements(program_.micro_batch_rows(), program_.norm_rows);
    const ops::gpu::GpuLaunch check = ops::gpu::finite_launch(device_.target, type.dtype, elements, ops::gpu::out(0));
    return work.launches.add(
        device_.kernels, {&check, 1},
        {.inputs = {address(operand)}, .outputs = {device_.memory.flags_of(word)}, .flags = device_.memory.flags()});
  }

  const Graph& graph_;
  const planner::Program& program_;
  const runtime::Binder& binder_;
  const Instruction& pass_;
  const BoundDevice& device_;
  BlockRange blocks_;
};

class CopyWork final : public BoundWork {
 public:
  CopyWork(const runtime::Binder& binder, const Instruction& copy) {
    for (size_t i = 0; i + 1 < copy.operands.size(); i += 2) {
      parts_.push_back({binder.address(copy.operands[i]),
                        reinterpret_cast<CUdeviceptr>(binder.at(copy.operands[i + 1])), copy.operands[i].bytes});
    }
  }

  Status queue(const runtime::StepContext& step, Stream& stream) override {
    for (const Part& part : parts_) {
      std::byte* const from = part.from.at(step);
      XRUN_TRY(part.from.input < 0 ? stream.copy(part.to, reinterpret_cast<CUdeviceptr>(from), part.bytes)
                                   : stream.copy_in(part.to, {from, static_cast<size_t>(part.bytes)}));
    }
    return {};
  }

 private:
  struct Part {
    runtime::OperandAddress from;
    CUdeviceptr to = 0;
    Bytes bytes = 0;
  };

  std::vector<Part> parts_;
};

}  // namespace

Result<std::unique_ptr<BoundWork>> bind_pass(const Module& module, const planner::Program& program,
                                             const runtime::Binder& binder, const NodeKernels& kernels,
                                             const WatchedWords& watched, const Instruction& pass,
                                             const BoundDevice& device) {
  auto work = std::make_unique<PassWork>();
  XRUN_TRY(PassBinder(module, program, binder, pass, device).bind(kernels, watched, *work));
  return std::unique_ptr<BoundWork>(std::move(work));
}

std::unique_ptr<BoundWork> bind_copy(const runtime::Binder& binder, const Instruction& copy) {
  return std::make_unique<CopyWork>(binder, copy);
}

}  // namespace xrun::cuda
