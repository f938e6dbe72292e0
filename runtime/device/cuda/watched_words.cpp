#include "runtime/device/cuda/watched_words.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "ops/gpu/update/update_decision.h"
#include "runtime/device/non_finite.h"

namespace xrun::cuda {

using planner::Operand;

WatchedWords::WatchedWords(const Module& module, const planner::Program& program, int device)
    : module_(module), program_(program), device_(device) {
  const std::vector<bool> watched = runtime::watched_values(module.graph, program);
  for (const planner::Instruction& pass : program.instructions) {
    if (pass.kind != planner::Kind::kForward || pass.device != device) {
      continue;
    }
    for (const Operand& operand : pass.operands) {
      if (operand.role != planner::Role::kOutput || operand.by != planner::By::kBlock) {
        continue;
      }
      const ValueId value = module.graph.node(operand.node).outputs[static_cast<size_t>(operand.index)];
      const DType dtype = module.graph.value(value).type.dtype;
      if (watched[static_cast<size_t>(value.index)] && (dtype == DType::kF32 || dtype == DType::kBF16)) {
        places_[{pass.id, value}] = count();
        words_.push_back({&pass, value});
      }
    }
  }
}

int64_t WatchedWords::word_of(const planner::Instruction& instruction, ValueId value) const {
  const auto at = places_.find({instruction.id, value});
  return at == places_.end() ? -1 : at->second;
}

Error WatchedWords::error_of(const std::vector<uint32_t>& flags, std::span<const double> sums,
                             const runtime::StepContext& step) const {
  const std::string in_step = program_.training ? fmt::format(" in step {}", step.step + 1) : "";
  if ((flags[0] & ops::gpu::kFlagNoRow) != 0) {
    return {ErrorKind::kContent, "XG0402",
            fmt::format("a number has no row in a table of `embed` or `embed_bag`{}", in_step),
            "run the step on processors, which name the number: `--devices 1`"};
  }
  Error error{.kind = ErrorKind::kNonFinite, .code = "XG0810"};
  for (size_t i = 0; i < words_.size(); ++i) {
    if (flags[i + 1] == 0) {
      continue;
    }
    const auto& [pass, id] = words_[i];
    const Value& value = module_.graph.value(id);
    const Node& node = module_.graph.node(value.producer);
    error.message = fmt::format("`{}` ({}) gives a value that is not finite, for micro-batch {}{}, on device {}",
                                node.path, node.op->name, pass->micro_batch, in_step, device_);
    error.notes.push_back(
        "a GPU checks only losses and values that leave a stage, so an operator before it may be the cause; processors "
        "(`--devices 1`) name the operator");
    error.help = program_.training ? runtime::advice_about_operator(module_.train, step.step, node, false)
                                   : "use an earlier checkpoint, or check the data";
    error.span = node.span;
    return error;
  }
  if (std::ranges::any_of(sums, [](double sum) { return !std::isfinite(sum); })) {
    return runtime::nonfinite_gradient(module_, program_, sums, step);
  }
  error.message = fmt::format("a loss is not finite{}, on device {}", in_step, device_);
  error.help = runtime::advice_about_loss(module_.train, step.step);
  error.span = module_.train.span;
  return error;
}

}  // namespace xrun::cuda
