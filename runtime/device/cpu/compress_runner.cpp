// Tests: tests/runtime/runs/compressed_gradients_test.cpp
#include "runtime/device/cpu/compress_runner.h"

#include <algorithm>
#include <cmath>

#include "graph/base/check.h"
#include "graph/layouts/norm_layout.h"
#include "ops/optimizer/compression.h"
#include "runtime/device/non_finite.h"

namespace xrun::runtime {
namespace {

using planner::Operand;
using planner::Role;

constexpr int64_t kChunk = 16 * kNormChunk;  // elements that one worker takes at a time

int64_t chunks_of(int64_t count) { return (count + kChunk - 1) / kChunk; }

// The number of elements of the largest tensor that an instruction compresses.
int64_t largest_of(const Graph& graph, const planner::Instruction& instruction) {
  int64_t largest = 0;
  for (const Operand& operand : instruction.operands) {
    if (!operand.param.valid()) {
      continue;  // the sums of squares of all gradients
    }
    largest = std::max(largest, graph.value(graph.param(operand.param).value).type.elements(0, 0));
  }
  return largest;
}

}  // namespace

CompressRunner::CompressRunner(const Module& module, const planner::Program& program, const Binder& binder,
                               ops::Isa isa, const ops::OptimizerForm& form)
    : module_(module), program_(program), binder_(binder), isa_(isa), form_(form) {}

// Binds a kCompress instruction. In its list of operands, the operands of a weight follow the weight's gradient.
BoundCompress CompressRunner::bind(const planner::Instruction& instruction) const {
  const Graph& graph = module_.graph;
  const int64_t largest = largest_of(graph, instruction);
  BoundCompress compress{.weights = {},
                         .selection = ops::TopK(largest, program_.threads[static_cast<size_t>(instruction.device)],
                                                pairs_of(largest, module_.train.compress.density))};
  for (const Operand& operand : instruction.operands) {
    if (operand.role == Role::kGradient) {
      compress.weights.push_back({.param = operand.param,
                                  .count = graph.value(graph.param(operand.param).value).type.elements(0, 0),
                                  .gradient = binder_.at<const float>(operand),
                                  .rule = rule_of(module_.train, form_, graph, operand.param)});
      CompressedWeight& weight = compress.weights.back();
      if (module_.train.clip.kind == ClipSpec::kNorm) {
        weight.squares.resize(static_cast<size_t>((weight.count + kNormChunk - 1) / kNormChunk));
      }
      continue;
    }
    if (operand.role == Role::kNorms) {
      continue;
    }
    CompressedWeight& weight = compress.weights.back();
    switch (operand.role) {
      case Role::kWeight:
        weight.weight = binder_.at<const float>(operand);
        break;
      case Role::kState:
        (operand.index == 0 ? weight.velocity : weight.residual) = binder_.at<float>(operand);
        break;
      case Role::kPairs:
        weight.pairs = binder_.at<GradientPair>(operand);
        break;
      default:
        XRUN_CHECK(false, std::string("a compression has no use for ") + name_of(operand.role));
    }
  }
  return compress;
}

// Returns the factor that clips the gradient and removes the scale of the loss. A sender clips each tensor separately,
// to the limit divided by sqrt(senders): the norm of a sum of independent gradients grows with the square root of their
// number.
Result<double> CompressRunner::clip_scale(CompressedWeight& weight, const StepContext& step,
                                          ops::Workers& workers) const {
  const ClipSpec& clip = module_.train.clip;
  if (clip.kind != ClipSpec::kNorm) {
    return 1 / step.loss_scale;
  }
  const auto one = [&](int64_t chunk, int) {
    const int64_t end = std::min(weight.count, (chunk + 1) * kChunk);
    for (int64_t at = chunk * kChunk; at < end; at += kNormChunk) {
      weight.squares[static_cast<size_t>(at / kNormChunk)] =
          ops::sum_of_squares(isa_, weight.gradient + at, std::min(kNormChunk, end - at));
    }
  };
  workers.for_each(chunks_of(weight.count), one);
  double total = 0;
  for (const double sum : weight.squares) {
    total += sum;
  }
  const double norm = std::sqrt(total) / step.loss_scale;
  if (!std::isfinite(norm)) {
    return Error{ErrorKind::kNonFinite, "XG0810",
                 "the gradient of `" + module_.graph.param(weight.param).name + "` in step " +
                     std::to_string(step.step + 1) + " is not finite: its norm is " + std::to_string(norm),
                 advice_about_gradient(module_.train, step.step), module_.train.span};
  }
  const double limit = clip.limit / std::sqrt(static_cast<double>(program_.senders()));
  return (norm > limit ? limit / norm : 1) / step.loss_scale;
}

Status CompressRunner::run(BoundCompress& compress, const StepContext& step, ops::Workers& workers) const {
  const double senders = program_.senders();
  for (CompressedWeight& weight : compress.weights) {
    XRUN_ASSIGN(const double scale, clip_scale(weight, step, workers));
    const ops::CompressScalars scalars{.scale = static_cast<float>(scale),
                                       .limit = static_cast<float>(weight.rule.grad_limit / std::sqrt(senders)),
                                       .decay = static_cast<float>(weight.rule.decay / senders),
                                       .momentum = static_cast<float>(form_.momentum),
                                       .nesterov = form_.nesterov};
    const auto add = [&](int64_t chunk, int) {
      const int64_t begin = chunk * kChunk;
      ops::accumulate(scalars, weight.gradient + begin, weight.weight + begin, weight.velocity + begin,
                      weight.residual + begin, std::min(kChunk, weight.count - begin));
    };
    workers.for_each(chunks_of(weight.count), add);
    const int64_t pairs = pairs_of(weight.count, step.density);
    compress.selection.select(weight.residual, weight.count, pairs, weight.pairs, workers);
    const auto clear = [&](int64_t chunk, int) {
      const int64_t begin = chunk * kChunk;
      ops::clear_sent(weight.pairs + begin, std::min(kChunk, pairs - begin), weight.velocity, weight.residual);
    };
    workers.for_each(chunks_of(pairs), clear);
  }
  return {};
}

}  // namespace xrun::runtime
