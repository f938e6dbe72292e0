#include "runtime/executor/update_runner.h"

#include <algorithm>
#include <mutex>

#include "graph/base/check.h"
#include "runtime/executor/row_offsets.h"
#include "runtime/fold.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::Instruction;
using planner::Purpose;

// Elements that one worker takes at a time: weight, gradient and two states of it stay in a second-level cache. A
// multiple of kNormChunk.
constexpr int64_t kChunk = 16 * kNormChunk;

// Calls body(weight, begin, end) for chunks of all weights.
template <typename Body>
void for_chunks(const std::vector<BoundWeight>& weights, ops::Workers& workers, const Body& body) {
  int64_t chunks = 0;
  for (const BoundWeight& weight : weights) {
    chunks += (weight.count + kChunk - 1) / kChunk;
  }
  const auto one = [&](int64_t item, int worker) {
    for (const BoundWeight& weight : weights) {
      const int64_t own = (weight.count + kChunk - 1) / kChunk;
      if (item < own) {
        body(weight, item * kChunk, std::min(weight.count, (item + 1) * kChunk), worker);
        return;
      }
      item -= own;
    }
  };
  workers.for_each(chunks, one);
}

}  // namespace

UpdateRunner::UpdateRunner(const Module& module, const planner::Program& program, const BoundMemory& memory,
                           const KernelSet& kernels, const Binder& binder, const NormLayout& norms, ops::Isa isa,
                           const ops::OptimizerForm& form)
    : module_(module),
      program_(program),
      memory_(memory),
      kernels_(kernels),
      binder_(binder),
      norms_(norms),
      isa_(isa),
      form_(form) {}

BoundPrepare UpdateRunner::bind_prepare(const Buffer& prepared) const {
  const Node& node = module_.graph.node(prepared.node);
  const ParamId param = module_.graph.value(node.inputs[static_cast<size_t>(prepared.slot)]).param;
  const Buffer* plain = binder_.find_param(param, Purpose::kWeight, prepared.replica);
  XRUN_CHECK(plain != nullptr, "a prepared weight without its plain form: " + node.path);
  return {kernels_.of(prepared.node), prepared.slot, {memory_.at(*plain)}, memory_.at(prepared)};
}

BoundUpdate UpdateRunner::bind(const Instruction& instruction) const {
  const Graph& graph = module_.graph;
  BoundUpdate update;
  for (const planner::BufferId id : instruction.reads) {
    const Buffer& buffer = program_.buffer(id);
    if (buffer.purpose == Purpose::kGradient && buffer.param.valid()) {
      update.weights.push_back(bind_weight(buffer, instruction));
    }
  }
  for (const planner::BufferId id : instruction.writes) {
    const Buffer& buffer = program_.buffer(id);
    if (buffer.purpose == Purpose::kPrepared) {
      update.prepares.push_back(bind_prepare(buffer));
    }
  }
  if (const Buffer* scratch = find_purpose(program_, instruction, Purpose::kScratch)) {
    update.scratch = memory_.at(*scratch);
    update.slice = scratch->bytes / program_.threads[static_cast<size_t>(instruction.device)] / kAlignment * kAlignment;
  }
  if (instruction.kind == planner::Kind::kUpdate && instruction.stage >= 0) {
    for (const NodeId id : program_.stages[static_cast<size_t>(instruction.stage)].forward) {
      if (graph.node(id).op->folds_states) {
        update.folds.push_back(bind_fold(instruction, id));
      }
    }
  }
  return update;
}

BoundWeight UpdateRunner::bind_weight(const Buffer& gradient, const Instruction& instruction) const {
  const Graph& graph = module_.graph;
  const Parameter& parameter = graph.param(gradient.param);
  BoundWeight weight;
  weight.param = gradient.param;
  weight.count = graph.value(parameter.value).type.elements(0, 0);
  const Buffer* plain = binder_.find_param(gradient.param, Purpose::kWeight, gradient.replica);
  XRUN_CHECK(plain != nullptr, "a gradient without its weight: " + parameter.name);
  weight.weight = reinterpret_cast<float*>(memory_.at(*plain));
  for (int slot = 0; slot < form_.states; ++slot) {
    const Buffer* state = binder_.find_param(gradient.param, Purpose::kOptimizer, gradient.replica, slot);
    XRUN_CHECK(state != nullptr, "no optimizer state for " + parameter.name);
    weight.states[slot] = reinterpret_cast<float*>(memory_.at(*state));
  }
  const int64_t partials = program_.partials / program_.replicas;
  for (int64_t partial = 0; partial < partials; ++partial) {
    weight.partials.push_back(reinterpret_cast<float*>(memory_.at(gradient) + gradient.bytes / partials * partial));
  }
  weight.rule = rule_of(module_.train, form_, graph, gradient.param);
  if (const Buffer* norms = find_purpose(program_, instruction, Purpose::kNorms)) {
    weight.norms =
        reinterpret_cast<double*>(memory_.at(*norms)) + norms_.first[static_cast<size_t>(gradient.param.index)];
  }
  return weight;
}

// The statistics of all row blocks of the batch: with replicas they have been gathered into one buffer.
BoundFold UpdateRunner::bind_fold(const Instruction& instruction, NodeId id) const {
  const Graph& graph = module_.graph;
  const Node& node = graph.node(id);
  BoundFold fold;
  fold.kernel = kernels_.of(id);
  for (const ValueId input : node.inputs) {
    const ParamId param = graph.value(input).param;
    const Buffer* buffer = nullptr;
    if (param.valid()) {
      buffer = binder_.find_param(param, Purpose::kState, instruction.replica);
      buffer = buffer != nullptr ? buffer : binder_.find_param(param, Purpose::kWeight, instruction.replica);
    }
    fold.inputs.push_back(buffer == nullptr ? ops::TensorView() : ops::TensorView{memory_.at(*buffer)});
  }
  for (const ValueId output : node.outputs) {
    const TensorType& type = graph.value(output).type;
    const Buffer* found = nullptr;
    for (const planner::BufferId read : instruction.reads) {
      const Buffer& buffer = program_.buffer(read);
      if (buffer.value == output && (found == nullptr || buffer.purpose == Purpose::kGathered)) {
        found = &buffer;
      }
    }
    XRUN_CHECK(
        !type.per_block() || (found != nullptr && found->bytes >= type.bytes(program_.batch, program_.block_rows)),
        "the statistics of " + node.path + " are nowhere for all row blocks");
    fold.outputs.push_back({found != nullptr && type.per_block() ? memory_.at(*found) : nullptr});
  }
  return fold;
}

void UpdateRunner::fold_partials(const BoundUpdate& update, ops::Workers& workers) const {
  for_chunks(update.weights, workers, [](const BoundWeight& weight, int64_t begin, int64_t end, int) {
    float* terms[planner::kMostPartials];
    XRUN_CHECK(weight.partials.size() <= std::size(terms), "more partials than a replica has");
    for (size_t partial = 0; partial < weight.partials.size(); ++partial) {
      terms[partial] = weight.partials[partial] + begin;
    }
    fold_tree(std::span(terms, weight.partials.size()), end - begin);
  });
}

void UpdateRunner::add_squares(const BoundUpdate& update, ops::Workers& workers) const {
  for_chunks(update.weights, workers, [this](const BoundWeight& weight, int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; at += kNormChunk) {
      weight.norms[at / kNormChunk] =
          ops::sum_of_squares(isa_, weight.partials[0] + at, std::min(kNormChunk, end - at));
    }
  });
}

Status UpdateRunner::apply(const BoundUpdate& update, const StepContext& step, double grad_scale,
                           ops::Workers& workers) const {
  for_chunks(update.weights, workers, [&](const BoundWeight& weight, int64_t begin, int64_t end, int) {
    const auto at = [&](float* base) { return base == nullptr ? nullptr : base + begin; };
    ops::update(isa_, form_, scalars_of(weight.rule, form_, step.rate, step.step, grad_scale), weight.weight + begin,
                weight.partials[0] + begin, at(weight.states[0]), at(weight.states[1]), end - begin);
  });
  XRUN_TRY(prepare(update, workers));
  for (const BoundFold& fold : update.folds) {
    XRUN_TRY(fold.kernel->fold_states(fold.inputs, fold.outputs, program_.batch / program_.block_rows));
  }
  return {};
}

Status UpdateRunner::prepare(const BoundUpdate& update, ops::Workers& workers) const {
  Status first;
  std::mutex mutex;
  const auto one = [&](int64_t item, int worker) {
    const BoundPrepare& prepare = update.prepares[static_cast<size_t>(item)];
    Status status =
        prepare.kernel->prepare(prepare.input, prepare.plain, prepare.prepared, update.scratch + update.slice * worker);
    if (!status.ok()) {
      const std::lock_guard lock(mutex);
      first = std::move(status);
    }
  };
  workers.for_each(static_cast<int64_t>(update.prepares.size()), one);
  return first;
}

}  // namespace xrun::runtime
