// Derives from the module's graph and settings what each head of a program is, and compares it with the program.
// A plan chooses only the rows of a head pass, the shards, and the class blocks whose logits each shard keeps.
// Tests: tests/planner/verify/verify_module_test.cpp
#include <algorithm>

#include "graph/layouts/head_shape.h"
#include "graph/settings/group_rules.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/head_plan.h"
#include "planner/verify/verify_parts.h"

namespace xrun::planner {
namespace {

// The head `index` of a module, in a program with this choice of rows and shards.
class ModelHead {
 public:
  ModelHead(const Module& module, size_t index, const HeadPlan& chosen)
      : module_(module),
        graph_(module.graph),
        training_(!module.graph.param_grads.empty()),
        head_(module.graph.heads[index]),
        is_{.head = static_cast<int>(index), .rows = chosen.rows, .shards = chosen.shards} {
    find_classifier(index);
    find_loss();
    find_metrics();
    find_settings();
  }

  // Returns the part of a head's plan that differs from the module; null if none does.
  const char* difference(const HeadPlan& has) const {
    const std::pair<const char*, bool> parts[] = {
        {"number", has.head == is_.head},
        {"classifier", has.node == is_.node && has.logits == is_.logits},
        {"weights", has.weight == is_.weight && has.bias == is_.bias},
        {"size", has.classes == is_.classes && has.dim == is_.dim && has.class_block == is_.class_block},
        {"feature", has.feature == is_.feature && has.bf16 == is_.bf16},
        {"gradient of the feature", has.feature_grad == is_.feature_grad},
        {"loss", has.loss == is_.loss && has.row_factor == is_.row_factor},
        {"label", has.label == is_.label},
        {"list of metrics", has.metrics == is_.metrics && has.top_k == is_.top_k},
        {"weight of a row", has.row_weight == is_.row_weight},
        {"update", has.frozen == is_.frozen && has.update_sweep == is_.update_sweep},
        {"active classes", has.active == is_.active && has.neighbours == is_.neighbours &&
                               has.exact_graph == is_.exact_graph && has.probes == is_.probes &&
                               has.log_q == is_.log_q && has.untouched == is_.untouched},
        {"memory of class rows", has.weights == is_.weights && has.states == is_.states &&
                                     has.state_count == is_.state_count && has.mapped == is_.mapped},
        {"plan", has == is_}};
    const auto differs = std::ranges::find_if(parts, [](const auto& part) { return !part.second; });
    return differs == std::end(parts) ? nullptr : differs->first;
  }

 private:
  void find_classifier(size_t index) {
    const Node& node = graph_.node(head_.node);
    const auto param_of = [&](size_t input) { return graph_.value(node.inputs[input]).param; };
    const TensorType& weight = graph_.value(node.inputs[1]).type;
    is_.node = head_.node;
    is_.feature = node.inputs[0];
    is_.logits = node.outputs[0];
    is_.weight = param_of(1);
    is_.bias = node.inputs.size() > 2 ? param_of(2) : ParamId();
    is_.classes = weight.dims[0];
    is_.dim = weight.dims[1];
    is_.class_block = class_blocks(module_, index).size;
    is_.bf16 = graph_.value(is_.feature).type.dtype == DType::kBF16;
    is_.frozen = training_ && graph_.param(is_.weight).frozen;
    for (const NamedValue& input : graph_.inputs) {
      is_.feature_grad = training_ && input.name == head_.name + ".dx" ? input.value : is_.feature_grad;
    }
  }

  bool reads_logits(const Node& node) const { return !node.inputs.empty() && node.inputs[0] == is_.logits; }

  // Finds the loss that reads the logits: a term of the objective, or a metric of a model that is only evaluated.
  void find_loss() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op->margin != nullptr && reads_logits(node)) {
        is_.loss = NodeId(i);
        is_.label = node.inputs.size() > 1 ? node.inputs[1] : ValueId();
        is_.row_factor = node.inputs.size() > 2 ? node.inputs[2] : ValueId();
      }
    }
    is_.row_weight =
        is_.loss.valid() ? module_.train.row_weight(graph_.node(is_.loss).outputs[0]) : module_.train.row_weight();
  }

  // Finds the metrics of the head, which have labels, and the lists of its best classes, which only inference makes.
  void find_metrics() {
    is_.top_k = training_ ? 1 : kShownClasses;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op->metric_k == nullptr || !reads_logits(node) || (training_ && node.inputs.size() < 2)) {
        continue;
      }
      is_.metrics.push_back(NodeId(i));
      is_.top_k = std::max(is_.top_k, node.op->metric_k(node.attrs));
      is_.label = node.inputs.size() > 1 ? node.inputs[1] : is_.label;
    }
    is_.top_k = std::min(is_.top_k, is_.classes);
  }

  void find_settings() {
    const TrainSpec& train = module_.train;
    const RowRules rules = row_rules(train, graph_.param(is_.weight).name);
    const bool selects = train.active_classes.of(is_.classes) < is_.classes;
    is_.weights = rules.weights;
    is_.states = training_ ? rules.states : RowFormat::kF32;
    is_.state_count =
        training_ ? std::max(is_.state_count, static_cast<int>(optimizer_states(module_).size())) : is_.state_count;
    if (training_ && is_.loss.valid() && selects) {
      is_.active = train.active_classes.of(is_.classes);
      is_.neighbours = train.active_classes.neighbours;
      is_.exact_graph = train.active_classes.exact;
      is_.probes = train.active_classes.probes;
      is_.log_q = train.active_classes.log_q;
      is_.untouched = rules.untouched;
    }
    is_.mapped = rules.rows == RowPlace::kMapped && is_.classes >= kLeastMappedClasses && selects &&
                 (is_.active > 0 || !training_);
    // The gradients of a pass update its class rows at once, unless other passes or sums over all gradients follow.
    is_.update_sweep =
        training_ && is_.loss.valid() && !is_.frozen && (is_.rows < train.batch || train.heads_wait_for_sums());
  }

  const Module& module_;
  const Graph& graph_;
  bool training_;
  const Head& head_;
  HeadPlan is_;
};

}  // namespace

Status verify_heads(const Program& program, const Module& module) {
  const Graph& graph = module.graph;
  if (program.heads.size() != graph.heads.size()) {
    return wrong("{} heads of a model that has {}", program.heads.size(), graph.heads.size());
  }
  for (size_t h = 0; h < program.heads.size(); ++h) {
    if (const char* const part = ModelHead(module, h, program.heads[h]).difference(program.heads[h])) {
      return wrong("head {} is not `{}` of the model: its {} differs", h, graph.heads[h].name, part);
    }
  }
  return {};
}

}  // namespace xrun::planner
