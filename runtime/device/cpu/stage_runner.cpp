#include "runtime/device/cpu/stage_runner.h"

#include <algorithm>
#include <cstring>

#include "graph/base/check.h"
#include "graph/cost.h"
#include "runtime/device/non_finite.h"

namespace xrun::runtime {
namespace {

using planner::By;
using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Role;

// Checks the exponent bits: a value with all of them set is infinite or NaN. This works in every floating-point mode.
bool f32_is_finite(const void* data, int64_t count) {
  const auto* words = static_cast<const uint32_t*>(data);
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= (words[i] & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  }
  return bad == 0;
}

// `exponent`: the exponent bits of the type.
bool narrow_is_finite(const void* data, int64_t count, uint32_t exponent) {
  const auto* words = static_cast<const uint16_t*>(data);
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= (words[i] & exponent) == exponent ? 1u : 0u;
  }
  return bad == 0;
}

// Memory is zeroed in pieces of this size, which take a worker some microseconds.
constexpr Bytes kZeroedPiece = 256 * kKiB;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Chooses the number of parts into which each of `groups` kernel calls is divided, so that all workers end at nearly
// the same time. The parts of a call share its `units`, and there are at most `most` parts. A larger number of parts is
// chosen only if it saves a tenth of the time, since each part has a cost.
int64_t even_parts(int64_t groups, int64_t workers, int64_t units, int64_t most) {
  int64_t best = 1;
  int64_t longest = ceil_div(groups, workers) * units;  // in units of one worker
  for (int64_t parts = 2; parts <= std::min(most, workers); ++parts) {
    const int64_t length = ceil_div(groups * parts, workers) * ceil_div(units, parts);
    if (length * 10 < longest * 9) {
      best = parts;
      longest = length;
    }
  }
  return best;
}

}  // namespace

StageRunner::StageRunner(const Module& module, const planner::Program& program, const Binder& binder,
                         const KernelSet& kernels, int workers)
    : graph_(module.graph),
      train_(module.train),
      program_(program),
      binder_(binder),
      kernels_(kernels),
      workers_(workers),
      watched_(watched_values(module.graph, program)),
      state_(static_cast<size_t>(program.devices * workers)) {
  const Graph& graph = module.graph;
  size_t operands = 0;
  for (const Node& node : graph.nodes) {
    operands = std::max(operands, node.inputs.size() + node.outputs.size());
  }
  for (Worker& worker : state_) {
    worker.views.resize(operands);
  }
}

// The largest number of parts that saves time. A part must take longer than distributing the parts of a node and
// waiting for them, which takes about 10 us; a core is assumed to compute 40 Gflop/s and to transfer 10 GB/s.
int64_t StageRunner::worthwhile_parts(const Node& node, const ops::Kernel& kernel) const {
  constexpr double kLeastFlops = 4e5;
  constexpr double kFlopsPerByte = 4;
  const OpCost cost = cost_of(graph_, node);
  const double each = std::max(cost.flops * kernel.work(), kFlopsPerByte * static_cast<double>(cost.bytes));
  const double parts = each * static_cast<double>(program_.norm_rows) / kLeastFlops;
  return std::max<int64_t>(1, std::min(kernel.parts(), static_cast<int64_t>(parts)));
}

void StageRunner::bind_runs(BoundPass& pass) const {
  for (int64_t block = pass.first_block; block < pass.first_block + pass.blocks; ++block) {
    const bool begins =
        pass.forward || pass.runs.empty() || program_.partial_of(block) != program_.partial_of(block - 1);
    if (begins) {
      pass.runs.push_back({block, block});
    }
    pass.runs.back().end = block + 1;
  }
}

BoundPass StageRunner::bind(const Instruction& instruction) const {
  BoundPass pass;
  pass.device = instruction.device;
  pass.forward = instruction.kind == Kind::kForward;
  pass.blocks = program_.micro_batch_rows() / program_.norm_rows;
  pass.first_block = pass.blocks * instruction.micro_batch;
  bind_runs(pass);
  for (const Operand& operand : instruction.operands) {
    const BoundOperand bound{binder_.address(operand), operand.by, operand.step};
    if (operand.role == Role::kZeroed) {
      for (Bytes at = 0; at < operand.bytes; at += kZeroedPiece) {
        pass.zeroed.push_back(
            {binder_.at(operand) + at, static_cast<size_t>(std::min(kZeroedPiece, operand.bytes - at))});
      }
      continue;
    }
    if (operand.role == Role::kScratch) {
      pass.scratch = bound;
      continue;
    }
    if (pass.nodes.empty() || pass.nodes.back().node != operand.node) {
      const Node& node = graph_.node(operand.node);
      const ops::Kernel* kernel = kernels_.of(operand.node);
      XRUN_CHECK(kernel != nullptr, "a stage runs a node without a kernel: " + node.path);
      pass.nodes.push_back({.node = operand.node,
                            .kernel = kernel,
                            .first_operand = static_cast<int32_t>(pass.operands.size()),
                            .inputs = static_cast<int32_t>(node.inputs.size()),
                            .outputs = static_cast<int32_t>(node.outputs.size()),
                            .parts = worthwhile_parts(node, *kernel)});
      pass.is_cut = pass.is_cut || pass.nodes.back().parts > 1;
    }
    pass.nodes.back().adds = pass.nodes.back().adds || operand.by == By::kPartial;
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
  const auto zero = [&](int64_t item, int /*worker*/) {
    const std::span<std::byte> piece = pass.zeroed[static_cast<size_t>(item)];
    std::memset(piece.data(), 0, piece.size());
  };
  workers.for_each(static_cast<int64_t>(pass.zeroed.size()), zero);
  for (int w = 0; w < workers_; ++w) {
    status_of(pass.device, w) = {};
  }
  if (pass.is_cut && static_cast<int>(pass.runs.size()) < workers.count()) {
    run_parts(pass, step, workers);
  } else {
    run_whole(pass, step, workers);
  }
  for (int w = 0; w < workers_; ++w) {
    if (Status& status = status_of(pass.device, w); !status.ok()) {
      return std::exchange(status, Status());
    }
  }
  return {};
}

void StageRunner::run_whole(const BoundPass& pass, const StepContext& step, ops::Workers& workers) {
  const auto body = [&](int64_t item, int worker) {
    const BlockRange run = pass.runs[static_cast<size_t>(item)];
    for (int64_t index = run.begin; index < run.end; ++index) {
      const Block block = block_of(pass, index, worker, worker);
      run_block(pass, pass.nodes, block, step);
      check_block(pass, block, step);
    }
  };
  workers.for_each(static_cast<int64_t>(pass.runs.size()), body);
}

// Runs a pass in which some calls are divided into parts: takes as many blocks at a time as there are slices for their
// values, and runs them node by node. Consecutive nodes that are not divided run without waiting in between.
void StageRunner::run_parts(const BoundPass& pass, const StepContext& step, ops::Workers& workers) {
  const int64_t end = pass.first_block + pass.blocks;
  for (int64_t first = pass.first_block; first < end; first += workers.count()) {
    const BlockRange blocks{first, std::min<int64_t>(first + workers.count(), end)};
    const std::span<const BoundNode> nodes(pass.nodes);
    for (size_t n = 0; n < nodes.size() && all_ok(pass.device);) {
      size_t count = 1;
      while (n + count < nodes.size() && nodes[n].parts == 1 && nodes[n + count].parts == 1 &&
             nodes[n].adds == nodes[n + count].adds) {
        ++count;
      }
      run_nodes(pass, nodes.subspan(n, count), blocks, step, workers);
      n += count;
    }
    const auto check = [&](int64_t item, int worker) {
      check_block(pass, block_of(pass, first + item, static_cast<int>(item), worker), step);
    };
    workers.for_each(blocks.end - blocks.begin, check);
  }
}

// Runs one node in parts, or several nodes without parts. If a node adds to gradient partials, a part handles the
// blocks of a partial in ascending order.
void StageRunner::run_nodes(const BoundPass& pass, std::span<const BoundNode> nodes, BlockRange blocks,
                            const StepContext& step, ops::Workers& workers) {
  const BoundNode& head = nodes.front();
  const auto first_run = std::ranges::find_if(pass.runs, [&](const BlockRange& run) { return run.end > blocks.begin; });
  const auto last_run = std::ranges::find_if(pass.runs, [&](const BlockRange& run) { return run.end >= blocks.end; });
  const int64_t groups = head.adds ? last_run - first_run + 1 : blocks.end - blocks.begin;
  const int64_t parts = even_parts(groups, workers.count(), head.kernel->parts(), head.parts);
  int phase = 0;
  const auto body = [&](int64_t item, int worker) {
    const int64_t group = item / parts;
    const BlockRange run = head.adds ? first_run[group] : BlockRange{blocks.begin + group, blocks.begin + group + 1};
    for (int64_t index = std::max(run.begin, blocks.begin); index < std::min(run.end, blocks.end); ++index) {
      Block block = block_of(pass, index, static_cast<int>(index - blocks.begin), worker);
      block.part = item % parts;
      block.parts = parts;
      block.phase = parts > 1 ? phase : ops::kAllPhases;
      run_block(pass, nodes, block, step);
    }
  };
  for (; phase < (parts > 1 ? head.kernel->phases() : 1); ++phase) {
    workers.for_each(groups * parts, body);
  }
}

StageRunner::Block StageRunner::block_of(const BoundPass& pass, int64_t index, int slice, int worker) const {
  Block block{.index = index, .worker = worker};
  block.moved[static_cast<size_t>(By::kBlock)] = index - pass.first_block;
  block.moved[static_cast<size_t>(By::kPartial)] = program_.partial_of(index) - program_.partial_of(pass.first_block);
  block.moved[static_cast<size_t>(By::kWorker)] = slice;
  return block;
}

void StageRunner::run_block(const BoundPass& pass, std::span<const BoundNode> nodes, const Block& block,
                            const StepContext& step) {
  Status& status = status_of(pass.device, block.worker);
  for (size_t n = 0; n < nodes.size() && status.ok(); ++n) {
    status = run_node(pass, nodes[n], block, step);
  }
}

void StageRunner::check_block(const BoundPass& pass, const Block& block, const StepContext& step) {
  Status& status = status_of(pass.device, block.worker);
  if (pass.forward && status.ok()) {
    status = check_watched(pass, block, step);
  }
}

bool StageRunner::all_ok(int device) {
  for (int w = 0; w < workers_; ++w) {
    if (!status_of(device, w).ok()) {
      return false;
    }
  }
  return true;
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
  call.scratch = pass.scratch.begin.at(step) + pass.scratch.step * block.worker;
  call.seed = step.seed;
  call.step = step.step;
  call.loss_scale = static_cast<float>(step.loss_scale);
  call.first_row = block.index * program_.norm_rows;
  call.part = block.part;
  call.parts = block.parts;
  call.phase = block.phase;
  call.shared = address(pass.scratch, block.moved, step);
  Status status = node.kernel->run(call);
  if (!status.ok()) {
    Error error = std::move(status).error();
    error.span = error.span.valid() ? error.span : graph_.node(node.node).span;
    return error;
  }
  return {};
}

bool StageRunner::is_finite(const TensorType& type, const void* data) const {
  const int64_t count = type.elements(program_.norm_rows, program_.norm_rows);
  switch (type.dtype) {
    case DType::kF32:
      return f32_is_finite(data, count);
    case DType::kBF16:
      return narrow_is_finite(data, count, 0x7f80U);
    case DType::kF16:
      return narrow_is_finite(data, count, 0x7c00U);
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

}  // namespace xrun::runtime
