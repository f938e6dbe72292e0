// Steps: find the stage that makes each value. For each stage, look at the inputs of all nodes (find_reads): a value of
// another stage becomes a crossing; a value of the stage's forward pass that its backward pass reads is saved, unless
// it is computed again. When the crossings of all stages are known, decide which values of each stage need a buffer
// (settle): saved, sent and gathered values, results and statistics. All others are local to the scratch memory of a
// worker.
// Tests: tests/planner/emit/emit_test.cpp
#include "planner/emit/value_flow.h"

#include <algorithm>
#include <map>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

// A set of ids, listed in the order in which they were added.
template <typename T>
class OrderedSet {
 public:
  explicit OrderedSet(size_t size) : has_(size, false) {}
  void add(T id) {
    if (!has(id)) {
      has_[static_cast<size_t>(id.index)] = true;
      list_.push_back(id);
    }
  }
  bool has(T id) const { return has_[static_cast<size_t>(id.index)]; }
  const std::vector<T>& list() const { return list_; }

 private:
  std::vector<bool> has_;
  std::vector<T> list_;
};

using Values = OrderedSet<ValueId>;

class Tracer {
 public:
  Tracer(const Graph& graph, const Decision& decision, const std::vector<ValueId>& results)
      : graph_(graph),
        decision_(decision),
        wanted_(graph.values.size()),
        gathered_(graph.values.size()),
        head_gradients_(graph.values.size()),
        made_in_backward_(graph.values.size(), false) {
    for (const ValueId value : results) {
      wanted_.add(value);
    }
    for (const HeadPlan& head : decision.heads) {
      gathered_.add(head.feature);
      if (head.label.valid()) {
        gathered_.add(head.label);
      }
      if (head.feature_grad.valid()) {
        head_gradients_.add(head.feature_grad);
      }
    }
    for (size_t p = 0; p < graph.param_grads.size(); ++p) {
      if (graph.param_grads[p].valid()) {
        param_of_[graph.param_grads[p]] = ParamId(p);
      }
    }
  }

  Result<ValueFlow> run() {
    flow_.stages.resize(decision_.stages.size());
    flow_.maker.assign(graph_.values.size(), -1);
    for (const Stage& stage : decision_.stages) {
      for (const auto* nodes : {&stage.forward, &stage.backward}) {
        for (const NodeId id : *nodes) {
          for (const ValueId output : graph_.node(id).outputs) {
            flow_.maker[static_cast<size_t>(output.index)] = stage.index;
            made_in_backward_[static_cast<size_t>(output.index)] = nodes == &stage.backward;
          }
        }
      }
    }
    // The gradient of a feature is delivered to the stage that made the feature, as if its backward pass had made it:
    // skip connections may carry it unchanged to earlier stages.
    for (const HeadPlan& head : decision_.heads) {
      const int maker = flow_.maker[static_cast<size_t>(head.feature.index)];
      if (head.feature_grad.valid() && maker >= 0) {
        flow_.maker[static_cast<size_t>(head.feature_grad.index)] = maker;
        made_in_backward_[static_cast<size_t>(head.feature_grad.index)] = true;
        flow_.stages[static_cast<size_t>(maker)].head_gradients.push_back(head.feature_grad);
      }
    }
    for (const Stage& stage : decision_.stages) {
      XRUN_TRY(find_reads(stage));
    }
    for (const auto& [key, crossing] : crossings_) {
      flow_.crossings.push_back(crossing);
    }
    for (const Stage& stage : decision_.stages) {
      XRUN_TRY(settle(stage));
    }
    return std::move(flow_);
  }

 private:
  // Records that a value goes from stage `from` to stage `to`, whose forward or backward pass reads it.
  void add_crossing(int from, int to, ValueId value, bool forward) {
    const bool made_backward = made_in_backward_[static_cast<size_t>(value.index)];
    Crossing& crossing = crossings_[{from, to, value.index}];
    crossing.value = value;
    crossing.from = from;
    crossing.to = to;
    crossing.backward = made_backward;
    crossing.read_forward = crossing.read_forward || forward;
    crossing.read_backward = crossing.read_backward || !forward;
    XRUN_CHECK(made_backward ? from > to && !forward : from < to,
               "activations go to later stages, gradients to earlier ones");
  }

  Status find_reads(const Stage& stage) {
    StageFlow& flow = flow_.stages[static_cast<size_t>(stage.index)];
    OrderedSet<ParamId> params(graph_.params.size());
    Values remade(graph_.values.size());
    Values inputs_forward(graph_.values.size());
    Values inputs_backward(graph_.values.size());
    Values saved(graph_.values.size());
    for (const NodeId id : stage.recomputed) {
      for (const ValueId output : graph_.node(id).outputs) {
        remade.add(output);
      }
    }
    const auto read = [&](NodeId id, ValueId value, bool forward) -> Status {
      const Value& what = graph_.value(value);
      if (what.param.valid()) {
        params.add(what.param);
      } else if (what.is_input && !head_gradients_.has(value)) {
        (forward ? inputs_forward : inputs_backward).add(value);
      } else if (!forward && remade.has(value)) {
        // The value is computed again in the backward pass, so it is not saved.
      } else {
        const int maker = flow_.maker[static_cast<size_t>(value.index)];
        if (maker < 0) {
          return Error{ErrorKind::kContent, "XG0198",
                       "`" + graph_.node(id).path + "` reads logits of a sharded head, which never exist as a whole",
                       "use `linear` in place of the sharded classifier, or only its loss and metrics",
                       graph_.node(id).span};
        }
        if (maker != stage.index) {
          add_crossing(maker, stage.index, value, forward);
        } else if (!forward && !made_in_backward_[static_cast<size_t>(value.index)]) {
          saved.add(value);
        }
      }
      return {};
    };
    for (const NodeId id : stage.forward) {
      for (const ValueId input : graph_.node(id).inputs) {
        XRUN_TRY(read(id, input, true));
      }
    }
    if (decision_.training) {
      for (const auto* nodes : {&stage.recomputed, &stage.backward}) {
        for (const NodeId id : *nodes) {
          for (const ValueId input : graph_.node(id).inputs) {
            XRUN_TRY(read(id, input, false));
          }
        }
      }
    }
    flow.params = params.list();
    flow.inputs_forward = inputs_forward.list();
    flow.inputs_backward = inputs_backward.list();
    flow.saved = saved.list();
    return {};
  }

  // Decides which values of a stage get buffers.
  Status settle(const Stage& stage) {
    StageFlow& flow = flow_.stages[static_cast<size_t>(stage.index)];
    Values saved(graph_.values.size());
    Values sent(graph_.values.size());
    for (const ValueId value : flow.saved) {
      saved.add(value);
    }
    for (const Crossing& crossing : flow_.crossings) {
      if (crossing.from == stage.index) {
        sent.add(crossing.value);
      }
    }
    for (const NodeId id : stage.forward) {
      const Node& node = graph_.node(id);
      for (const ValueId output : node.outputs) {
        const bool folded = decision_.training && node.op->folds_states && graph_.value(output).type.per_block();
        if (folded) {
          flow.statistics.push_back(output);
        } else if (wanted_.has(output)) {
          flow.results.push_back(output);
        }
        const bool kept =
            folded || wanted_.has(output) || gathered_.has(output) || sent.has(output) || saved.has(output);
        (kept ? flow.kept : flow.forward_locals).push_back(output);
      }
    }
    if (!decision_.training) {
      return {};
    }
    for (const NodeId id : stage.recomputed) {
      const Node& node = graph_.node(id);
      flow.backward_locals.insert(flow.backward_locals.end(), node.outputs.begin(), node.outputs.end());
    }
    for (const NodeId id : stage.backward) {
      const Node& node = graph_.node(id);
      for (const ValueId output : node.outputs) {
        if (const auto param = param_of_.find(output); param != param_of_.end()) {
          if (node.op->rows != RowProperty::kReduces) {
            return Error{ErrorKind::kContent, "XG0198",
                         "the gradient of `" + graph_.param(param->second).name + "` comes from `" +
                             std::string(node.op->name) + "`, which does not sum over samples",
                         "use the weight in the operator that owns it only", node.span};
          }
          flow.gradients.push_back(param->second);
        } else {
          (sent.has(output) ? flow.sent_gradients : flow.backward_locals).push_back(output);
        }
      }
    }
    return {};
  }

  const Graph& graph_;
  const Decision& decision_;
  Values wanted_;
  Values gathered_;
  Values head_gradients_;
  std::vector<bool> made_in_backward_;
  std::map<ValueId, ParamId> param_of_;
  std::map<std::tuple<int, int, int32_t>, Crossing> crossings_;
  ValueFlow flow_;
};

}  // namespace

Result<ValueFlow> trace_values(const Graph& graph, const Decision& decision, const std::vector<ValueId>& results) {
  return Tracer(graph, decision, results).run();
}

}  // namespace xrun::planner
