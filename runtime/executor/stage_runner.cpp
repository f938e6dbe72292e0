#include "runtime/executor/stage_runner.h"

#include <algorithm>
#include <cstring>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

// All exponent bits set: infinite or NaN. On bits, so that no floating-point mode matters.
bool f32_is_finite(const std::byte* data, int64_t count) {
  const auto* words = reinterpret_cast<const uint32_t*>(data);
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= (words[i] & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
  }
  return bad == 0;
}

bool bf16_is_finite(const std::byte* data, int64_t count) {
  const auto* words = reinterpret_cast<const uint16_t*>(data);
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= (words[i] & 0x7f80u) == 0x7f80u ? 1u : 0u;
  }
  return bad == 0;
}

}  // namespace

StageRunner::StageRunner(const Graph& graph, const planner::Program& program, int workers)
    : graph_(graph), program_(program), workers_(workers), state_(static_cast<size_t>(program.devices * workers)) {
  size_t operands = 0;
  for (const Node& node : graph.nodes) {
    operands = std::max(operands, node.inputs.size() + node.outputs.size());
  }
  for (Worker& worker : state_) {
    worker.views.resize(operands);
  }
}

Status StageRunner::run(const BoundPass& pass, bool forward, const StepContext& step, ops::Workers& workers) {
  for (const auto& accumulator : pass.zeroed) {
    std::memset(accumulator.data(), 0, accumulator.size());
  }
  for (int w = 0; w < workers_; ++w) {
    state_[static_cast<size_t>(pass.device * workers_ + w)].status = {};
  }
  const auto run_one = [&](int64_t block, int worker) {
    Status& status = state_[static_cast<size_t>(pass.device * workers_ + worker)].status;
    if (status.ok()) {
      status = run_block(pass, block, step, worker);
    }
    if (forward && status.ok()) {
      status = check_watched(pass, block, step, worker);
    }
  };
  if (forward) {
    const auto body = [&](int64_t item, int worker) { run_one(pass.first_block + item, worker); };
    workers.for_each(pass.blocks, body);
  } else {
    const int64_t all = program_.batch / program_.block_rows;
    const int64_t first_partial = partial_of(pass.first_block, program_.partials, all);
    const int64_t last_partial = partial_of(pass.first_block + pass.blocks - 1, program_.partials, all);
    const auto body = [&](int64_t item, int worker) {
      for (int64_t block = pass.first_block; block < pass.first_block + pass.blocks; ++block) {
        if (partial_of(block, program_.partials, all) == first_partial + item) {
          run_one(block, worker);
        }
      }
    };
    workers.for_each(last_partial - first_partial + 1, body);
  }
  for (int w = 0; w < workers_; ++w) {
    Status& status = state_[static_cast<size_t>(pass.device * workers_ + w)].status;
    if (!status.ok()) {
      return std::exchange(status, Status());
    }
  }
  return {};
}

Status StageRunner::run_block(const BoundPass& pass, int64_t block, const StepContext& step, int worker) {
  for (const BoundNode& node : pass.nodes) {
    XRUN_TRY(run_node(pass, node, block, step, worker));
  }
  return {};
}

Status StageRunner::run_node(const BoundPass& pass, const BoundNode& node, int64_t block, const StepContext& step,
                             int worker) {
  ops::TensorView* views = state_[static_cast<size_t>(pass.device * workers_ + worker)].views.data();
  const int32_t count = node.inputs + node.outputs;
  for (int32_t i = 0; i < count; ++i) {
    views[i] = address(pass, pass.operands[static_cast<size_t>(node.first_operand + i)], block, step, worker);
  }
  ops::KernelCall call;
  call.inputs = {views, static_cast<size_t>(node.inputs)};
  call.outputs = {views + node.inputs, static_cast<size_t>(node.outputs)};
  call.scratch = pass.scratch + pass.slice * worker + pass.kernel_offset;
  call.seed = step.seed;
  call.step = step.step;
  call.first_row = block * program_.block_rows;
  Status status = node.kernel->run(call);
  if (!status.ok()) {
    Error error = std::move(status).error();
    error.span = error.span.valid() ? error.span : graph_.node(node.node).span;
    return error;
  }
  return {};
}

ops::TensorView StageRunner::address(const BoundPass& pass, const Operand& operand, int64_t block,
                                     const StepContext& step, int worker) const {
  switch (operand.where) {
    case Operand::Where::kAbsent:
      return {};
    case Operand::Where::kFixed:
      return {operand.base};
    case Operand::Where::kScratch:
      return {pass.scratch + pass.slice * worker + operand.offset};
    case Operand::Where::kBlock:
      return {operand.base + operand.stride * block};
    case Operand::Where::kPartial:
      return {operand.base +
              operand.stride * partial_of(block, program_.partials, program_.batch / program_.block_rows)};
    case Operand::Where::kInput:
      return {step.inputs[static_cast<size_t>(operand.input)] + operand.stride * block};
  }
  return {};
}

bool StageRunner::is_finite(const TensorType& type, const std::byte* data) const {
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

Status StageRunner::check_watched(const BoundPass& pass, int64_t block, const StepContext& step, int worker) {
  for (size_t i = 0; i < pass.watched.size(); ++i) {
    const ops::TensorView view = address(pass, pass.watched[i], block, step, worker);
    if (view.data != nullptr && !is_finite(graph_.value(pass.watched_values[i]).type, view.data)) {
      return find_nonfinite(pass, block, step, worker);
    }
  }
  return {};
}

// Runs the block once more, looking at every result: a forward pass only writes what it makes.
Error StageRunner::find_nonfinite(const BoundPass& pass, int64_t block, const StepContext& step, int worker) {
  const std::string rows = "rows " + std::to_string(block * program_.block_rows) + " to " +
                           std::to_string((block + 1) * program_.block_rows - 1) + " of the batch" +
                           (program_.training ? " of step " + std::to_string(step.step + 1) : "");
  for (const BoundNode& bound : pass.nodes) {
    if (const Status status = run_node(pass, bound, block, step, worker); !status.ok()) {
      return status.error();
    }
    const Node& node = graph_.node(bound.node);
    for (int32_t i = 0; i < bound.inputs; ++i) {
      const Value& value = graph_.value(node.inputs[static_cast<size_t>(i)]);
      const Operand& operand = pass.operands[static_cast<size_t>(bound.first_operand + i)];
      if (operand.where == Operand::Where::kInput &&
          !is_finite(value.type, static_cast<const std::byte*>(address(pass, operand, block, step, worker).data))) {
        return {ErrorKind::kNonFinite, "XG0810",
                "`" + node.path + "` (" + std::string(node.op->name) + ") reads data of `" + value.name +
                    "` that are not finite, for " + rows,
                "fix the samples, or the stages of `data` that make them", node.span};
      }
    }
    for (int32_t i = 0; i < bound.outputs; ++i) {
      const auto at = static_cast<size_t>(bound.first_operand + bound.inputs + i);
      const ops::TensorView view = address(pass, pass.operands[at], block, step, worker);
      if (view.data == nullptr || is_finite(graph_.value(node.outputs[static_cast<size_t>(i)]).type, view.data)) {
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
