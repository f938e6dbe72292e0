// Tests: tests/planner/report/text_test.cpp
#include "planner/report/compression.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "graph/base/units.h"
#include "graph/gradients.h"
#include "graph/layouts/compression.h"

namespace xrun::planner {
namespace {

// Returns, over all stages, the largest number of nodes that have replicas of the stage.
int nodes_with_replicas(const Plan& plan) {
  size_t most = 0;
  for (const Stage& stage : plan.training.stages) {
    std::set<int> nodes;
    for (const int device : stage.devices) {
      nodes.insert(plan.machine.node_of(device));
    }
    most = std::max(most, nodes.size());
  }
  return static_cast<int>(most);
}

// Returns the name of the senders, in the plural.
std::string senders_text(const CompressSummary& summary, const CompressSpec& compress) {
  return summary.by_node                             ? "nodes"
         : compress.per_node && summary.replicas > 1 ? fmt::format("groups of {} replicas", summary.replicas)
                                                     : "replicas";
}

}  // namespace

std::optional<CompressSummary> compression_of(const Plan& plan, const Module& module) {
  if (!module.train.compress.is_on()) {
    return std::nullopt;
  }
  const Program& program = plan.training;
  const int others = program.senders() - 1;
  CompressSummary summary{.senders = program.senders(), .replicas = program.sender_replicas};
  summary.by_node = module.train.compress.per_node && summary.senders == nodes_with_replicas(plan);
  for (size_t p = 0; p < module.graph.params.size(); ++p) {
    const ParamId param(p);
    const int64_t count = module.graph.value(module.graph.param(param).value).type.elements(0, 0);
    if (!has_gradient(module.graph, param) || module.graph.param(param).head) {
      continue;
    }
    const Bytes bytes = count * static_cast<Bytes>(sizeof(float));
    const Bytes whole = 2 * others * bytes / summary.senders;
    if (is_compressed(module.train, module.graph, param)) {
      const int64_t pairs = pairs_of(count, module.train.compress.density);
      const int64_t first = pairs_of(count, largest_density(module.train.compress));
      summary.elements += count;
      summary.pairs += pairs;
      summary.sent += others * pairs * static_cast<Bytes>(sizeof(GradientPair));
      summary.sent_at_first += others * first * static_cast<Bytes>(sizeof(GradientPair));
      summary.dense += whole;
      summary.inside += (summary.replicas - 1) * bytes;
    } else {
      summary.others += whole;
    }
  }
  return summary;
}

std::string compression_text(const Plan& plan, const Module& module) {
  const auto summary = compression_of(plan, module);
  if (!summary) {
    return "";
  }
  const CompressSpec& compress = module.train.compress;
  const std::string senders = senders_text(*summary, compress);
  std::string text = fmt::format("  compress   topk {:g} %: {} of {} gradients a step", 100 * compress.density,
                                 format_count(summary->pairs), format_count(summary->elements));
  if (plan.training.replicas == 1) {
    text += "; one replica sends nothing";
  } else if (summary->senders == 1) {
    text += fmt::format("; all {} replicas lie on one node, so nothing is sent between nodes", summary->replicas);
  } else {
    text += compress.per_node ? fmt::format("; each of {} {} sends ", summary->senders, senders)
                              : std::string("; each replica sends ");
    text += format_bytes(summary->sent);
    text += summary->sent_at_first > summary->sent
                ? fmt::format(" ({} as the warm-up begins)", format_bytes(summary->sent_at_first))
                : "";
    text += ", dense " + format_bytes(summary->dense);
    text += summary->others > 0 ? "; biases and others dense, " + format_bytes(summary->others) : "";
  }
  if (summary->inside > 0) {
    text += fmt::format("; inside a node {} replicas sum whole gradients, {}", summary->replicas,
                        format_bytes(summary->inside));
  }
  return text + fmt::format("; the result depends on the number of {}\n", senders);
}

std::optional<Diagnostic> unlike_nodes(const Plan& plan, const Module& module) {
  const auto summary = compression_of(plan, module);
  const CompressSpec& compress = module.train.compress;
  const int replicas = plan.training.replicas;
  if (!summary || !compress.per_node || replicas == 1 || (summary->by_node && summary->senders > 1)) {
    return std::nullopt;
  }
  Diagnostic warning{.severity = Severity::kWarning, .code = "XG0630", .primary = {compress.span, "by node"}};
  if (summary->senders == 1) {
    warning.message = fmt::format("all {} replicas lie on one node, so no gradients are sent between nodes", replicas);
    warning.fixes.push_back({.title = "leave `per_node` out, or write compress = none", .edits = {}, .lines = {}});
    return warning;
  }
  const int nodes = nodes_with_replicas(plan);
  warning.message = fmt::format(
      "{} nodes have different numbers of the {} replicas, so {} senders compress instead "
      "of the nodes",
      nodes, replicas, summary->senders);
  warning.fixes.push_back(
      {.title = fmt::format("write replicas = {} or a multiple of it in `schedule`", nodes), .edits = {}, .lines = {}});
  return warning;
}

}  // namespace xrun::planner
