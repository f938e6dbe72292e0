// Tests: tests/ops/facts/facts_test.cpp, tests/planner/step_programs_test.cpp
#include "graph/passes/pipeline.h"

#include "graph/layouts/partial_labels.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/passes.h"
#include "graph/passes/split_loss.h"
#include "graph/verify.h"

namespace xrun {
namespace {

// Stores the values to which the specs refer in the graph, as `loss` and `metrics`: a pass sees only the graph, and
// keeps these references valid.
void attach_values(Module& module, bool training) {
  Graph& graph = module.graph;
  graph.metrics.clear();
  for (const auto* list : {&module.train.metrics, &module.train.eval}) {
    for (const MetricSpec& metric : *list) {
      graph.metrics.push_back(metric.value);
    }
  }
  graph.loss = training ? module.train.loss : std::vector<LossTerm>();
}

void detach_values(Module& module) {
  size_t at = 0;
  for (auto* list : {&module.train.metrics, &module.train.eval}) {
    for (MetricSpec& metric : *list) {
      metric.value = module.graph.metrics[at++];
    }
  }
  module.train.loss = module.graph.loss;
}

// Stores the scale of each head's loss as an attribute of the head. Inference has no losses, but probabilities are
// those of the scaled logits (planner/program/program.cpp, `head_shape`).
void keep_scales(Graph& graph) {
  for (const Head& head : graph.heads) {
    Node& classifier = graph.nodes[head.node];
    for (const Node& loss : graph.nodes) {
      if (loss.op->margin == nullptr || loss.inputs[0] != classifier.outputs[0]) {
        continue;
      }
      if (const auto form = loss.op->margin(loss.attrs); form.ok() && form->scale != 1) {
        classifier.attrs.set("scale", form->scale);
      }
      break;
    }
  }
}

}  // namespace

Result<Module> prepare(Module module, const OpRegistry& registry, const PipelineOptions& options) {
  attach_values(module, options.training);
  if (!options.training) {
    keep_scales(module.graph);
  }
  if (options.training) {
    const std::vector<NamedValue> partial = partial_labels(module.graph, module.data);
    XRUN_ASSIGN(module.graph.loss, split_loss(module.graph, module.graph.loss, partial));
    XRUN_ASSIGN(module.graph, weigh_loss(std::move(module.graph), registry, module.train, module.data));
    XRUN_ASSIGN(module.graph, mix_loss(std::move(module.graph), registry, module.train, module.data));
  }
  XRUN_ASSIGN(Graph graph, simplify(std::move(module.graph)));
  XRUN_ASSIGN(graph, eliminate_common_subexpressions(std::move(graph)));
  XRUN_ASSIGN(graph, eliminate_dead_code(std::move(graph)));
  if (!options.training) {
    XRUN_ASSIGN(graph, copy_results(std::move(graph), registry));
  }
  if (module.train.precision != PrecisionMode::kF32) {
    const DType narrow = module.train.precision == PrecisionMode::kMixedF16 ? DType::kF16 : DType::kBF16;
    XRUN_ASSIGN(graph, mix_precision(std::move(graph), registry, narrow));
  }
  XRUN_ASSIGN(graph, fuse_elementwise(std::move(graph)));
  XRUN_ASSIGN(graph, fuse_maps(std::move(graph), registry, Phase::kForward));
  XRUN_ASSIGN(graph, fuse_functions(std::move(graph), registry));
  XRUN_ASSIGN(graph, fuse_residuals(std::move(graph), registry));
  XRUN_ASSIGN(graph, fuse_reductions(std::move(graph)));
  if (options.training) {
    graph.loss = merge_terms(graph.loss);
    XRUN_ASSIGN(graph,
                differentiate(std::move(graph), registry,
                              {.row_weight = module.train.row_weight(), .scaled = module.train.loss_scale.is_on()}));
    XRUN_ASSIGN(graph, eliminate_dead_code(std::move(graph)));
    XRUN_ASSIGN(graph, fuse_maps(std::move(graph), registry, Phase::kBackward));
    XRUN_ASSIGN(graph, fuse_sums(std::move(graph), registry));
  }
  XRUN_ASSIGN(graph, assign_layouts(std::move(graph), registry));
  XRUN_TRY(verify(graph));
  module.graph = std::move(graph);
  detach_values(module);
  return module;
}

Module with_batch(Module prepared, int64_t batch) {
  TrainSpec& train = prepared.train;
  train.grad_accumulation = batch / train.unit();
  train.batch = batch;
  train.growth.reset();
  for (Node& node : prepared.graph.nodes) {
    const double weight = node.inputs.empty() ? 0 : train.row_weight(node.inputs[0]);
    if (node.op->name == "fill" && node.phase == Phase::kBackward && weight != 0) {
      node.attrs.set("value", weight);  // `differentiate` begins with this value
    }
  }
  return prepared;
}

}  // namespace xrun
