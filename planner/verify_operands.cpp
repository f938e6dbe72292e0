// Operands of nodes against the graph: the same search for a place that the executor does.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "planner/verify_program.h"

namespace xrun::planner {
namespace {

template <typename... Args>
Error wrong(fmt::format_string<Args...> what, Args&&... args) {
  return {ErrorKind::kContent, "XG0622", "the program is not sound: " + fmt::format(what, std::forward<Args>(args)...),
          "make the plan again with `xrun plan`"};
}

class Operands {
 public:
  Operands(const Program& program, const Graph& graph) : program_(program), graph_(graph) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.purpose == Purpose::kPrepared) {
        prepared_[{buffer.node.index, buffer.slot, buffer.device}] = buffer.id;
      } else if (buffer.purpose == Purpose::kWeight || buffer.purpose == Purpose::kState) {
        params_[{buffer.param.index, buffer.device}] = &buffer;
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
    for (const Buffer& buffer : program_.buffers) {
      XRUN_TRY(check_size(buffer));
    }
    for (const Instruction& one : program_.instructions) {
      if (one.kind == Kind::kRun && (one.pass == Pass::kForward || one.pass == Pass::kBackward)) {
        XRUN_TRY(check_pass(one));
      } else if (one.kind == Kind::kRun && one.head >= 0) {
        XRUN_TRY(check_head_pass(one));
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

  // Rows that a buffer of a value must hold.
  Status check_size(const Buffer& buffer) const {
    int64_t rows = buffer.replica < 0 ? program_.batch : program_.batch / program_.replicas;
    if (buffer.micro_batch >= 0) {
      rows = buffer.head >= 0 ? program_.heads[static_cast<size_t>(buffer.head)].rows : program_.micro_batch_rows();
    }
    Bytes least = 0;
    switch (buffer.purpose) {
      case Purpose::kWeight:
      case Purpose::kState:
      case Purpose::kOptimizer:
        if (!buffer.param.valid()) {
          return wrong("buffer {} is of no parameter", buffer.id.index);
        }
        least = type(graph_.param(buffer.param).value).bytes(0, program_.block_rows);
        break;
      case Purpose::kGradient:
        if (!buffer.param.valid() || !buffer.value.valid()) {
          return wrong("buffer {} is of no parameter", buffer.id.index);
        }
        least = type(buffer.value).bytes(0, program_.block_rows) * (program_.lanes / program_.replicas);
        break;
      case Purpose::kInput:
        rows = program_.batch;
        [[fallthrough]];
      case Purpose::kActivation:
      case Purpose::kGathered:
      case Purpose::kResult:
        if (!buffer.value.valid()) {
          return wrong("buffer {} is of no value", buffer.id.index);
        }
        least = type(buffer.value).sharded ? rows * 8 : type(buffer.value).bytes(rows, program_.block_rows);
        break;
      case Purpose::kScratch:
      default:
        break;
    }
    if (buffer.bytes < least) {
      return wrong("buffer {} ({}) has {} bytes for {}", buffer.id.index, buffer.name, buffer.bytes, least);
    }
    return {};
  }

  // Buffers of a head pass have what the kernels want (graph/head_shape.h).
  Status check_head_pass(const Instruction& one) const {
    const HeadPlan& head = program_.heads[static_cast<size_t>(one.head)];
    const bool sweep = one.pass == Pass::kHeadUpdate || one.pass == Pass::kHeadNorms;
    const int64_t rows = sweep ? program_.batch : head.rows;
    Bytes stats = 0;
    Bytes gradient = 0;
    for (const HeadShard& shard : head.shards) {
      const HeadShape shape = head_shape(program_, graph_, head, shard, head.rows);
      stats += head_stats_bytes(shape);
      gradient += shard.device == one.device ? head_gradient_bytes(shape) : 0;
    }
    Bytes scratch = 0;
    if (one.pass != Pass::kReduceStats) {
      const HeadShape shape = head_shape(program_, graph_, head, head.shards[static_cast<size_t>(one.shard)], rows);
      scratch = head_scratch_bytes(shape, one.pass == Pass::kHeadForward    ? HeadPass::kForward
                                          : one.pass == Pass::kHeadBackward ? HeadPass::kBackward
                                                                            : HeadPass::kUpdate);
    }
    const bool makes_stats = one.pass == Pass::kHeadForward || one.pass == Pass::kReduceStats;
    const std::map<Purpose, Bytes> wanted{
        {Purpose::kHeadStats, makes_stats ? stats : 0},
        {Purpose::kHeadGradient, one.pass == Pass::kHeadBackward ? gradient : 0},
        {Purpose::kHeadSoftmax, one.pass == Pass::kHeadForward ? 0 : rows * 8},
        {Purpose::kHeadScratch, scratch},
    };
    for (const auto& [purpose, bytes] : wanted) {
      Bytes has = 0;
      for (const auto* list : {&one.reads, &one.writes}) {
        for (const BufferId id : *list) {
          has = std::max(has, program_.buffer(id).purpose == purpose ? program_.buffer(id).bytes : 0);
        }
      }
      if (has < bytes) {
        return wrong("instruction {} has {} of {} bytes for a head pass", one.id.index, has, bytes);
      }
    }
    const auto reads = [&](ValueId value) {
      return std::any_of(one.reads.begin(), one.reads.end(),
                         [&](BufferId id) { return program_.buffer(id).value == value; });
    };
    if ((one.pass != Pass::kReduceStats && !reads(head.feature)) || (head.label.valid() && !reads(head.label))) {
      return wrong("instruction {} does not read the features and labels of its head", one.id.index);
    }
    return {};
  }

  Status check_pass(const Instruction& one) const {
    const Stage& stage = program_.stages[static_cast<size_t>(one.stage)];
    const BlockLayout& layout = one.pass == Pass::kForward ? stage.forward_layout : stage.backward_layout;
    std::set<ValueId> locals;
    for (const LocalValue& local : layout.locals) {
      locals.insert(local.value);
    }
    std::map<ValueId, const Buffer*> reads;
    std::map<ValueId, const Buffer*> writes;
    std::set<BufferId> read;
    Bytes scratch = 0;
    for (const BufferId id : one.reads) {
      read.insert(id);
      reads[program_.buffer(id).value] = &program_.buffer(id);
    }
    for (const BufferId id : one.writes) {
      const Buffer& buffer = program_.buffer(id);
      scratch += buffer.purpose == Purpose::kScratch ? buffer.bytes : 0;
      if (buffer.value.valid() && !writes.insert({buffer.value, &buffer}).second) {
        return wrong("instruction {} writes value {} in two places", one.id.index, buffer.value.index);
      }
    }
    const auto fits = [&](const Buffer& buffer) {
      return buffer.purpose == Purpose::kInput || buffer.purpose == Purpose::kGradient ||
             (buffer.replica == one.replica && (buffer.micro_batch < 0 || buffer.micro_batch == one.micro_batch));
    };
    if (scratch < align_up(layout.bytes) * program_.threads[static_cast<size_t>(one.device)]) {
      return wrong("instruction {} has {} bytes of scratch", one.id.index, scratch);
    }
    for (const NodeId id : one.nodes) {
      const Node& node = graph_.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId value = node.inputs[i];
        const Value& what = graph_.value(value);
        if (what.param.valid()) {
          const auto prepared = prepared_.find({id.index, static_cast<int32_t>(i), one.device});
          const auto param = params_.find({what.param.index, one.device});
          if (prepared != prepared_.end() ? !read.contains(prepared->second)
                                          : param == params_.end() || !read.contains(param->second->id)) {
            return wrong("instruction {} does not read parameter `{}` of node {}", one.id.index,
                         graph_.param(what.param).name, id.index);
          }
          continue;
        }
        if (locals.contains(value) || writes.contains(value)) {
          continue;
        }
        const auto found = reads.find(value);
        if (found == reads.end() || !fits(*found->second)) {
          return wrong("instruction {} has no place for value {} that node {} reads", one.id.index, value.index,
                       id.index);
        }
      }
      for (const ValueId value : node.outputs) {
        if (locals.contains(value)) {
          continue;
        }
        const auto found = writes.find(value);
        if (found == writes.end() || !fits(*found->second)) {
          return wrong("instruction {} has no place for value {} that node {} makes", one.id.index, value.index,
                       id.index);
        }
      }
    }
    return {};
  }

  const Program& program_;
  const Graph& graph_;
  std::map<std::tuple<int32_t, int32_t, int>, BufferId> prepared_;  // (node, input, device)
  std::map<std::pair<int32_t, int>, const Buffer*> params_;
};

}  // namespace

Status verify_operands(const Program& program, const Graph& graph) { return Operands(program, graph).run(); }

}  // namespace xrun::planner
