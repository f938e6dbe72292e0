// Operands of nodes against the graph: the same search for a place that the executor does.
#include <algorithm>
#include <map>
#include <set>

#include "planner/verify/verify_parts.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

class Operands {
 public:
  Operands(const Program& program, const Graph& graph) : program_(program), graph_(graph), params_(program) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.purpose == Purpose::kPrepared) {
        prepared_[{buffer.node.index, buffer.slot, buffer.replica}] = buffer.id;
      }
    }
  }

  Status run() {
    XRUN_TRY(check_nodes());
    for (const Stage& stage : program_.stages) {
      XRUN_TRY(check_layout(stage, stage.forward, stage.forward_layout));
      std::vector<NodeId> nodes = stage.recomputed;
      nodes.insert(nodes.end(), stage.backward.begin(), stage.backward.end());
      XRUN_TRY(check_layout(stage, nodes, stage.backward_layout));
    }
    for (const Instruction& one : program_.instructions) {
      if (one.kind == Kind::kRun && (one.pass == Pass::kForward || one.pass == Pass::kBackward)) {
        XRUN_TRY(check_pass(one));
      }
    }
    return {};
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // Stages are ranges of the forward nodes in order; what is run again is theirs; each node is in one place.
  Status check_nodes() const {
    std::set<NodeId> seen;
    int32_t last = -1;
    for (const Stage& stage : program_.stages) {
      for (const NodeId id : stage.forward) {
        if (id.index <= last || graph_.node(id).phase != Phase::kForward) {
          return wrong("node {} of stage {} is out of order", id.index, stage.index);
        }
        last = id.index;
      }
      for (const NodeId id : stage.recomputed) {
        if (std::find(stage.forward.begin(), stage.forward.end(), id) == stage.forward.end()) {
          return wrong("stage {} runs node {} again, which is not its own", stage.index, id.index);
        }
      }
      for (const NodeId id : stage.backward) {
        if (!seen.insert(id).second || graph_.node(id).phase != Phase::kBackward) {
          return wrong("node {} of stage {} is no backward node, or is in two stages", id.index, stage.index);
        }
      }
    }
    for (size_t i = 0; program_.training && i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].phase == Phase::kBackward && !seen.contains(NodeId(i))) {
        return wrong("backward node {} is in no stage", i);
      }
    }
    return {};
  }

  // Local values that are in use together do not share bytes.
  Status check_layout(const Stage& stage, const std::vector<NodeId>& nodes, const BlockLayout& layout) const {
    struct Use {
      LocalValue local;
      size_t first = SIZE_MAX;
      size_t last = 0;
    };
    std::map<ValueId, Use> uses;
    for (const LocalValue& local : layout.locals) {
      if (!uses.insert({local.value, {local}}).second) {
        return wrong("value {} has two places in a slice of stage {}", local.value.index, stage.index);
      }
      if (local.bytes < type(local.value).bytes(program_.block_rows, program_.block_rows)) {
        return wrong("value {} has {} bytes in a slice of stage {}", local.value.index, local.bytes, stage.index);
      }
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = graph_.node(nodes[i]);
      for (const bool output : {false, true}) {
        for (const ValueId value : output ? node.outputs : node.inputs) {
          const auto found = uses.find(value);
          if (found == uses.end()) {
            continue;
          }
          Use& use = found->second;
          if (!output && use.first == SIZE_MAX) {
            return wrong("node {} of stage {} reads value {} before it is made", nodes[i].index, stage.index,
                         value.index);
          }
          use.first = std::min(use.first, i);
          use.last = i;
        }
      }
    }
    std::vector<const Use*> sorted;
    for (const auto& [value, use] : uses) {
      if (use.first != SIZE_MAX && use.local.bytes > 0) {
        sorted.push_back(&use);
      }
    }
    std::sort(sorted.begin(), sorted.end(),
              [](const Use* a, const Use* b) { return a->local.offset < b->local.offset; });
    for (size_t i = 0; i < sorted.size(); ++i) {
      for (size_t j = i + 1; j < sorted.size(); ++j) {
        const Use& a = *sorted[i];
        const Use& b = *sorted[j];
        if (b.local.offset >= a.local.offset + a.local.bytes) {
          break;
        }
        if (a.first <= b.last && b.first <= a.last) {
          return wrong("values {} and {} share bytes in a slice of stage {}", a.local.value.index, b.local.value.index,
                       stage.index);
        }
      }
    }
    return {};
  }

  // Whatever of the buffer's rows or partials a pass looks up, it has those of the pass.
  static bool fits(const Instruction& one, const Buffer& buffer) {
    switch (buffer.purpose) {
      case Purpose::kInput:
        return true;
      case Purpose::kWeight:
      case Purpose::kState:
      case Purpose::kPrepared:
      case Purpose::kGradient:
      case Purpose::kActivation:
      case Purpose::kResult:
        return buffer.replica == one.replica && (buffer.micro_batch < 0 || buffer.micro_batch == one.micro_batch);
      default:
        return false;
    }
  }

  Status check_pass(const Instruction& one) const {
    const Stage& stage = program_.stages[static_cast<size_t>(one.stage)];
    const BlockLayout& layout = one.pass == Pass::kForward ? stage.forward_layout : stage.backward_layout;
    std::set<ValueId> locals;
    for (const LocalValue& local : layout.locals) {
      locals.insert(local.value);
    }
    std::set<ValueId> reads;
    std::set<ValueId> writes;
    std::set<BufferId> read;
    Bytes scratch = -1;  // of the first, which the executor takes
    for (const auto* list : {&one.reads, &one.writes}) {
      for (const BufferId id : *list) {
        const Buffer& buffer = program_.buffer(id);
        if (buffer.purpose == Purpose::kScratch) {
          scratch = scratch < 0 ? buffer.bytes : scratch;
        } else if (!fits(one, buffer)) {
          return wrong("instruction {} cannot work on buffer {} ({})", one.id.index, id.index, buffer.name);
        }
        if (list == &one.reads) {
          read.insert(id);
          reads.insert(buffer.value);
        } else if (buffer.value.valid() && !writes.insert(buffer.value).second) {
          return wrong("instruction {} writes value {} in two places", one.id.index, buffer.value.index);
        }
      }
    }
    if (std::max<Bytes>(scratch, 0) < align_up(layout.bytes) * program_.threads[static_cast<size_t>(one.device)]) {
      return wrong("instruction {} has {} bytes of scratch", one.id.index, std::max<Bytes>(scratch, 0));
    }
    for (const NodeId id : one.nodes) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId value = node.inputs[i];
        const Value& what = graph_.value(value);
        if (what.param.valid()) {
          const auto prepared = prepared_.find({id.index, static_cast<int32_t>(i), one.replica});
          const Buffer* plain = params_.find(what.param, Purpose::kWeight, one.replica);
          plain = plain != nullptr ? plain : params_.find(what.param, Purpose::kState, one.replica);
          if (prepared != prepared_.end() ? !read.contains(prepared->second)
                                          : plain == nullptr || !read.contains(plain->id)) {
            return wrong("instruction {} does not read parameter `{}` of node {}", one.id.index,
                         graph_.param(what.param).name, id.index);
          }
          continue;
        }
        if (!locals.contains(value) && !writes.contains(value) && !reads.contains(value)) {
          return wrong("instruction {} has no place for value {} that node {} reads", one.id.index, value.index,
                       id.index);
        }
      }
      for (const ValueId value : node.outputs) {
        if (!locals.contains(value) && !writes.contains(value)) {
          return wrong("instruction {} has no place for value {} that node {} makes", one.id.index, value.index,
                       id.index);
        }
      }
    }
    return {};
  }

  const Program& program_;
  const Graph& graph_;
  ParamBuffers params_;
  std::map<std::tuple<int32_t, int32_t, int>, BufferId> prepared_;  // (node, input, replica)
};

}  // namespace

Status verify_operands(const Program& program, const Module& module) {
  XRUN_TRY(verify_buffers(program, module));
  XRUN_TRY(Operands(program, module.graph).run());
  XRUN_TRY(verify_exchanges(program, module));
  return verify_runs(program, module);
}

}  // namespace xrun::planner
