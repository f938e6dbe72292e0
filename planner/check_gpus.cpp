// Refuses what GPUs cannot run (declared in planner/planner.h).
// Tests: tests/planner/gpus_test.cpp
#include <set>
#include <utility>

#include "graph/base/errors.h"
#include "graph/settings/known_update.h"
#include "planner/planner.h"

namespace xrun::planner {
namespace {

const std::string kOnCpus = "use CPUs: leave out `--devices cuda`, or `gpu` of the cluster";

void add_operators(const Module& module, const KernelFacts& facts, std::vector<Error>& gaps) {
  const Graph& graph = module.graph;
  std::set<std::string> known;
  for (size_t i = 0; i < graph.nodes.size() && i < facts.nodes.size(); ++i) {
    if (const std::string& missing = facts.nodes[i].missing; !missing.empty() && known.insert(missing).second) {
      const Node& node = graph.nodes[i];
      gaps.push_back({ErrorKind::kContent, "XG0633",
                      missing + ", and " + (node.path.empty() ? "the model" : "`" + node.path + "`") + " needs it",
                      "use other operators, or " + kOnCpus, node.span});
    }
  }
}

void add_settings(const Module& module, std::vector<Error>& gaps) {
  const TrainSpec& train = module.train;
  const auto refuse = [&](const std::string& what, const std::string& help, Span span) {
    gaps.push_back({ErrorKind::kContent, "XG0634", "GPUs cannot run " + what, help, span});
  };
  if (train.active_classes.kind != ActiveSpec::kAll) {
    refuse(train.active_classes.kind == ActiveSpec::kKnn ? "heads with active classes from lists of nearest ones"
                                                         : "heads with sampled active classes",
           "leave `active_classes` out, or " + kOnCpus, train.active_classes.span);
  }
  if (train.compress.is_on()) {
    refuse("trainings with compressed gradients", "leave `compress` out, or " + kOnCpus, train.compress.span);
  }
  if (train.precision == PrecisionMode::kMixedF16) {
    refuse("trainings in f16", "write `precision = mixed(bf16)`, or " + kOnCpus, train.span);
  }
  for (const GroupSpec& group : train.groups) {
    if (group.rows == RowPlace::kMapped) {
      refuse("heads with class rows in a file", "leave `rows = mapped` out, or " + kOnCpus, group.span);
    }
    if (group.weights == RowFormat::kFp8) {
      refuse("heads with class rows in fp8", "write `weights = bf16`, or " + kOnCpus, group.span);
    }
  }
  const KnownUpdate::Kind update = known_update(train.optimizer).kind;
  if (!module.graph.heads.empty() && update != KnownUpdate::kSgd && update != KnownUpdate::kAdamw) {
    refuse("heads with the optimizer `" + train.optimizer.name + "`",
           "train heads with `sgd` or `adamw`, or " + kOnCpus, train.optimizer.span);
  }
}

}  // namespace

std::vector<Error> gpu_gaps(const Module& module, const KernelFacts& facts, const Machine& machine) {
  std::vector<Error> gaps;
  if (machine.has_gpus()) {
    add_settings(module, gaps);
    add_operators(module, facts, gaps);
  }
  return gaps;
}

Status check_gpus(const Module& module, const KernelFacts& facts, const Machine& machine) {
  std::vector<Error> gaps = gpu_gaps(module, facts, machine);
  return gaps.empty() ? Status() : Status(std::move(gaps.front()));
}

}  // namespace xrun::planner
