#include "runtime/device/cpu/stage_runner.h"

#include <algorithm>
#include <cstring>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

using planner::By;
using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Role;

// All exponent bits set: infinite or NaN. On bits, so that no floating-point mode matters.
bool f32_is_finite(const void* data, int64_t count) {
  const auto* words = static_cast<const uint32_t*>(data);
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= (words[i] & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  }
  return bad == 0;
}

bool bf16_is_finite(const void* data, int64_t count) {
  const auto* words = static_cast<const uint16_t*>(data);
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= (words[i] & 0x7f80u) == 0x7f80u ? 1u : 0u;
  }
  return bad == 0;
}

std::byte* address(const BoundOperand& operand, const std::array<int64_t, 4>& moved, const StepContext& step) {
  return operand.begin.at(step) + operand.step * moved[static_cast<size_t>(operand.by)];
}

}  // namespace

StageRunner::StageRunner(const Graph& graph, const planner::Program& program, const Binder& binder,
                         const KernelSet& kernels, int workers)
    : graph_(graph),
      program_(program),
      binder_(binder),
      kernels_(kernels),
      workers_(workers),
      watched_(graph.values.size(), false),
      state_(static_cast<size_t>(program.devices * workers)) {
  size_t operands = 0;
  for (const Node& node : graph.nodes) {
    operands = std::max(operands, node.inputs.size() + node.outputs.size());
  }
  for (Worker& worker : state_) {
    worker.views.resize(operands);
  }
  const auto watch = [&](ValueId value) {
    if (value.valid()) {
      watched_[static_cast<size_t>(value.index)] = true;
    }
  };
  watch(graph.loss);
  for (const planner::HeadPlan& head : program.heads) {
    watch(head.feature);
  }
  for (const planner::Stage& stage : program.stages) {
    std::for_each(stage.received.begin(), stage.received.end(), watch);
  }
}

BoundPass StageRunner::bind(const Instruction& instruction) const {
  BoundPass pass;
  pass.device = instruction.device;
  pass.forward = instruction.kind == Kind::kForward;
  pass.blocks = program_.micro_batch_rows() / program_.block_rows;
  pass.first_block = pass.blocks * instruction.micro_batch;
  for (const Operand& operand : instruction.operands) {
    const BoundOperand bound{binder_.address(operand), operand.by, operand.step};
    if (operand.role == Role::kZeroed) {
      pass.zeroed.push_back({binder_.at(operand), static_cast<size_t>(operand.bytes)});
      continue;
    }
    if (operand.role == Role::kScratch) {
      pass.scratch = bound;
      continue;
    }
    if (pass.nodes.empty() || pass.nodes.back().node != operand.node) {
      const Node& node = graph_.node(operand.node);
      XRUN_CHECK(kernels_.of(operand.node) != nullptr, "a stage runs a node without a kernel: " + node.path);
      pass.nodes.push_back({operand.node, kernels_.of(operand.node), static_cast<int32_t>(pass.operands.size()),
                            static_cast<int32_t>(node.inputs.size()), static_cast<int32_t>(node.outputs.size())});
    }
    pass.operands.push_back(bound);
    const ValueId output = operand.role == Role::kOutput
                               ? graph_.node(operand.node).outputs[static_cast<size_t>(operand.index)]
                               : ValueId();
    if (pass.forward && output.valid() && operand.by == By::kBlock && watched_[static_cast<size_t>(output.index)]) {
      pass.watched.push_back(bound);
      pass.watched_values.push_back(output);
    }
  }
  return pass;
}

Status StageRunner::run(const BoundPass& pass, const StepContext& step, ops::Workers& workers) {
  for (const auto& accumulator : pass.zeroed) {
    std::memset(accumulator.data(), 0, accumulator.size());
  }
  for (int w = 0; w < workers_; ++w) {
    status_of(pass.device, w) = {};
  }
  const auto run_one = [&](int64_t index, int worker) {
    Status& status = status_of(pass.device, worker);
    const Block block = block_of(pass, index, worker);
    if (status.ok()) {
      status = run_block(pass, block, step);
    }
    if (pass.forward && status.ok()) {
      status = check_watched(pass, block, step);
    }
  };
  if (pass.forward) {
    const auto body = [&](int64_t item, int worker) { run_one(pass.first_block + item, worker); };
    workers.for_each(pass.blocks, body);
  } else {
    const int64_t first_partial = program_.partial_of(pass.first_block);
    const int64_t last_partial = program_.partial_of(pass.first_block + pass.blocks - 1);
    const auto body = [&](int64_t item, int worker) {
      for (int64_t block = pass.first_block; block < pass.first_block + pass.blocks; ++block) {
        if (program_.partial_of(block) == first_partial + item) {
          run_one(block, worker);
        }
      }
    };
    workers.for_each(last_partial - first_partial + 1, body);
  }
  for (int w = 0; w < workers_; ++w) {
    if (Status& status = status_of(pass.device, w); !status.ok()) {
      return std::exchange(status, Status());
    }
  }
  return {};
}

StageRunner::Block StageRunner::block_of(const BoundPass& pass, int64_t index, int worker) const {
  Block block{.index = index, .worker = worker};
  block.moved[static_cast<size_t>(By::kBlock)] = index - pass.first_block;
  block.moved[static_cast<size_t>(By::kPartial)] = program_.partial_of(index) - program_.partial_of(pass.first_block);
  block.moved[static_cast<size_t>(By::kWorker)] = worker;
  return block;
}

Status StageRunner::run_block(const BoundPass& pass, const Block& block, const StepContext& step) {
  for (const BoundNode& node : pass.nodes) {
    XRUN_TRY(run_node(pass, node, block, step));
  }
  return {};
}

Status StageRunner::run_node(const BoundPass& pass, const BoundNode& node, const Block& block,
                             const StepContext& step) {
  ops::TensorView* views = state_[static_cast<size_t>(pass.device * workers_ + block.worker)].views.data();
  const int32_t count = node.inputs + node.outputs;
  for (int32_t i = 0; i < count; ++i) {
    views[i] = {address(pass.operands[static_cast<size_t>(node.first_operand + i)], block.moved, step)};
  }
  ops::KernelCall call;
  call.inputs = {views, static_cast<size_t>(node.inputs)};
  call.outputs = {views + node.inputs, static_cast<size_t>(node.outputs)};
  call.scratch = address(pass.scratch, block.moved, step);
  call.seed = step.seed;
  call.step = step.step;
  call.first_row = block.index * program_.block_rows;
  Status status = node.kernel->run(call);
  if (!status.ok()) {
    Error error = std::move(status).error();
    error.span = error.span.valid() ? error.span : graph_.node(node.node).span;
    return error;
  }
  return {};
}

bool StageRunner::is_finite(const TensorType& type, const void* data) const {
  const int64_t count = type.elements(program_.block_rows, program_.block_rows);
  switch (type.dtype) {
    case DType::kF32:
      return f32_is_finite(data, count);
    case DType::kBF16:
      return bf16_is_finite(data, count);
    default:
      return true;
  }
}

Status StageRunner::check_watched(const BoundPass& pass, const Block& block, const StepContext& step) {
  for (size_t i = 0; i < pass.watched.size(); ++i) {
    if (!is_finite(graph_.value(pass.watched_values[i]).type, address(pass.watched[i], block.moved, step))) {
      return find_nonfinite(pass, block, step);
    }
  }
  return {};
}

// Runs the block once more, looking at every result: a forward pass only writes what it makes.
Error StageRunner::find_nonfinite(const BoundPass& pass, const Block& block, const StepContext& step) {
  const std::string rows = "rows " + std::to_string(block.index * program_.block_rows) + " to " +
                           std::to_string((block.index + 1) * program_.block_rows - 1) + " of the batch" +
                           (program_.training ? " of step " + std::to_string(step.step + 1) : "");
  for (const BoundNode& bound : pass.nodes) {
    if (const Status status = run_node(pass, bound, block, step); !status.ok()) {
      return status.error();
    }
    const Node& node = graph_.node(bound.node);
    for (int32_t i = 0; i < bound.inputs; ++i) {
      const Value& value = graph_.value(node.inputs[static_cast<size_t>(i)]);
      const BoundOperand& operand = pass.operands[static_cast<size_t>(bound.first_operand + i)];
      if (operand.begin.input >= 0 && !is_finite(value.type, address(operand, block.moved, step))) {
        return {ErrorKind::kNonFinite, "XG0810",
                "`" + node.path + "` (" + std::string(node.op->name) + ") reads data of `" + value.name +
                    "` that are not finite, for " + rows,
                "fix the samples, or the stages of `data` that make them", node.span};
      }
    }
    for (int32_t i = 0; i < bound.outputs; ++i) {
      const auto at = static_cast<size_t>(bound.first_operand + bound.inputs + i);
      if (is_finite(graph_.value(node.outputs[static_cast<size_t>(i)]).type,
                    address(pass.operands[at], block.moved, step))) {
        continue;
      }
      return {ErrorKind::kNonFinite, "XG0810",
              "`" + node.path + "` (" + std::string(node.op->name) + ") gives a value that is not finite, for " + rows,
              program_.training ? "lower `train.lr`, warm it up for longer, or set `train.clip = norm(1)`"
                                : "take an earlier checkpoint, or look at the data",
              node.span};
    }
  }
  return {ErrorKind::kNonFinite, "XG0810", "a value that is not finite came up and went away again, for " + rows,
          "run again with `--deterministic`"};
}

}  // namespace xrun::runtime
