// Refuses what GPUs cannot run (declared in planner/planner.h).
// Tests: tests/planner/gpus_test.cpp
#include "graph/base/errors.h"
#include "planner/planner.h"

namespace xrun::planner {
namespace {

Status check_operators(const Module& module, const KernelFacts& facts) {
  const Graph& graph = module.graph;
  for (size_t i = 0; i < graph.nodes.size() && i < facts.nodes.size(); ++i) {
    if (facts.nodes[i].missing) {
      const Node& node = graph.nodes[i];
      return Error{ErrorKind::kContent, "XG0633",
                   "`" + std::string(node.op->name) + "` has no kernel for GPUs, and " +
                       (node.path.empty() ? "the model" : "`" + node.path + "`") + " needs it",
                   "leave `gpu` out of the cluster, so that CPUs run the model, or use other operators", node.span};
    }
  }
  return {};
}

Status check_settings(const Module& module) {
  const TrainSpec& train = module.train;
  const auto refused = [](const std::string& what, const std::string& help, Span span) -> Status {
    return Error{ErrorKind::kContent, "XG0634", "GPUs cannot run " + what, help, span};
  };
  if (train.active_classes.kind != ActiveSpec::kAll) {
    return refused(train.active_classes.kind == ActiveSpec::kKnn
                       ? "heads with active classes from lists of nearest ones"
                       : "heads with sampled active classes",
                   "leave `active_classes` out, or leave `gpu` out of the cluster", train.active_classes.span);
  }
  if (train.compress.is_on()) {
    return refused("trainings with compressed gradients", "leave `compress` out, or leave `gpu` out of the cluster",
                   train.compress.span);
  }
  if (train.precision == PrecisionMode::kMixedF16) {
    return refused("trainings in f16", "write `precision = mixed(bf16)`, or leave `gpu` out of the cluster",
                   train.span);
  }
  for (const GroupSpec& group : train.groups) {
    if (group.rows == RowPlace::kMapped) {
      return refused("heads with class rows in a file", "leave `rows = mapped` out, or leave `gpu` out of the cluster",
                     group.span);
    }
  }
  return {};
}

}  // namespace

Status check_gpus(const Module& module, const KernelFacts& facts, const Machine& machine) {
  if (!machine.has_gpus()) {
    return {};
  }
  XRUN_TRY(check_settings(module));
  return check_operators(module, facts);
}

}  // namespace xrun::planner
