// Buffers against the module: each is of something that is there, lies where the executor looks for it, and has the
// bytes that are written into it.
#include <algorithm>
#include <numeric>
#include <set>

#include "graph/gradients.h"
#include "graph/norm_layout.h"
#include "planner/buffer_sizes.h"
#include "planner/head_plan.h"
#include "planner/verify/verify_parts.h"

namespace xrun::planner {
namespace {

bool is_persistent(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeight:
    case Purpose::kState:
    case Purpose::kOptimizer:
    case Purpose::kPrepared:
    case Purpose::kHeadWeight:
    case Purpose::kHeadOptimizer:
    case Purpose::kHeadPrepared:
    case Purpose::kHeadLists:
    case Purpose::kHeadSnapshot:
    case Purpose::kHeadBuild:
    case Purpose::kHeadSelection:
    case Purpose::kHeadMass:
    case Purpose::kHeadScale:
    case Purpose::kHeadLast:
    case Purpose::kInput:
      return true;
    default:
      return false;
  }
}

bool is_on_host(Purpose purpose) {
  return purpose == Purpose::kInput || purpose == Purpose::kHeadLists || purpose == Purpose::kHeadSnapshot ||
         purpose == Purpose::kHeadBuild;
}

// Those that an operand of a node may be looked up by.
bool has_value(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeight:
    case Purpose::kState:
    case Purpose::kOptimizer:
    case Purpose::kGradient:
    case Purpose::kHeadWeight:
    case Purpose::kHeadOptimizer:
    case Purpose::kInput:
    case Purpose::kActivation:
    case Purpose::kGathered:
    case Purpose::kResult:
      return true;
    default:
      return false;
  }
}

class Buffers {
 public:
  Buffers(const Program& program, const Module& module)
      : program_(program),
        module_(module),
        graph_(module.graph),
        params_(program),
        states_(optimizer_states(module)),
        norm_bytes_(norm_layout(module).bytes()) {
    for (const Stage& stage : program.stages) {
      for (size_t replica = 0; replica < stage.devices.size(); ++replica) {
        of_replica_.insert({stage.devices[replica], static_cast<int>(replica)});
      }
      for (const auto* nodes : {&stage.forward, &stage.backward}) {
        for (const NodeId node : *nodes) {
          stage_of_[node] = stage.index;
        }
      }
    }
  }

  Status run() {
    XRUN_TRY(check_heads());
    for (const Buffer& buffer : program_.buffers) {
      XRUN_TRY(check(buffer));
    }
    XRUN_TRY(check_ring());
    return check_shards();
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // What heads compute, and how many rows a step has, is said by the module alone; only who owns which classes is the
  // plan's.
  Status check_heads() {
    if (program_.batch != module_.train.batch || program_.norm_rows != module_.train.norm_rows) {
      return wrong("a batch of {} rows in row blocks of {}, where the model asks for {} in blocks of {}",
                   program_.batch, program_.norm_rows, module_.train.batch, module_.train.norm_rows);
    }
    if (program_.training == graph_.param_grads.empty() && !graph_.params.empty()) {
      return wrong("a program for {} of a graph for {}", program_.training ? "training" : "inference",
                   program_.training ? "inference" : "training");
    }
    if (program_.heads.size() != graph_.heads.size()) {
      return wrong("{} heads of a model that has {}", program_.heads.size(), graph_.heads.size());
    }
    std::vector<NodeId> nodes(graph_.nodes.size());
    std::generate(nodes.begin(), nodes.end(), [next = size_t{0}]() mutable { return NodeId(next++); });
    for (size_t h = 0; h < program_.heads.size(); ++h) {
      const HeadPlan& head = program_.heads[h];
      XRUN_ASSIGN(HeadPlan wanted, plan_head(module_, nodes, h, head.rows));
      wanted.shards = head.shards;
      if (head != wanted) {
        return wrong("head {} is not `{}` of the model: a value, its precision or the weight of its rows differs", h,
                     graph_.heads[h].name);
      }
      parts_.push_back(shard_parts(program_, graph_, head));
    }
    return {};
  }

  Status check(const Buffer& buffer) {
    if (buffer.persistent != is_persistent(buffer.purpose) || (buffer.value.valid() && !has_value(buffer.purpose)) ||
        is_on_host(buffer.purpose) != (buffer.device == kHost)) {
      return wrong("buffer {} ({}) does not fit what it is for", buffer.id.index, buffer.name);
    }
    switch (buffer.purpose) {
      case Purpose::kWeight:
      case Purpose::kState:
      case Purpose::kOptimizer:
      case Purpose::kGradient:
        return check_parameter(buffer);
      case Purpose::kPrepared:
        return check_prepared(buffer);
      case Purpose::kInput:
      case Purpose::kActivation:
      case Purpose::kGathered:
      case Purpose::kResult:
        return check_rows(buffer);
      case Purpose::kHeadWeight:
      case Purpose::kHeadOptimizer:
      case Purpose::kHeadPrepared:
      case Purpose::kHeadScale:
      case Purpose::kHeadLast:
        return check_shard(buffer);
      case Purpose::kHeadStats:
      case Purpose::kHeadSoftmax:
      case Purpose::kHeadGradient:
        return check_pass(buffer);
      case Purpose::kHeadLogits:
        return check_logits(buffer);
      case Purpose::kHeadSelection:
      case Purpose::kHeadMass:
        return check_selection(buffer);
      case Purpose::kHeadLists:
      case Purpose::kHeadSnapshot:
      case Purpose::kHeadBuild:
        return check_graph(buffer);
      case Purpose::kTerms:
        return buffer.head >= 0 ? check_dx_terms(buffer) : check_gradient_terms(buffer);
      case Purpose::kNorms:
        return check_bytes(buffer, norm_bytes_);
      case Purpose::kHeadScratch:  // of what passes over it
      case Purpose::kScratch:
        break;
    }
    return {};
  }

  static Status check_bytes(const Buffer& buffer, Bytes least) {
    if (buffer.bytes < least) {
      return wrong("buffer {} ({}) has {} bytes for {}", buffer.id.index, buffer.name, buffer.bytes, least);
    }
    return {};
  }

  static Error nothing(const Buffer& buffer, const char* what) {
    return wrong("buffer {} ({}) is of no {}", buffer.id.index, buffer.name, what);
  }

  // Of a stage: `replica` says whose.
  Status check_parameter(const Buffer& buffer) const {
    const bool gradient = buffer.purpose == Purpose::kGradient;
    if (!buffer.param.valid() || !buffer.value.valid() || graph_.param(buffer.param).head ||
        !of_replica_.contains({buffer.device, buffer.replica})) {
      return nothing(buffer, "parameter of its device");
    }
    if (gradient) {
      return check_gradient(buffer);
    }
    if (buffer.value != graph_.param(buffer.param).value ||
        (buffer.purpose == Purpose::kOptimizer ? !inside(buffer.state, 0, count(states_)) : buffer.state >= 0)) {
      return nothing(buffer, "parameter or state");
    }
    return check_bytes(buffer, type(buffer.value).bytes(0, program_.norm_rows));
  }

  // The update finds the weight and its states by the gradient's replica.
  Status check_gradient(const Buffer& buffer) const {
    if (!has_gradient(graph_, buffer.param) ||
        graph_.param_grads[static_cast<size_t>(buffer.param.index)] != buffer.value) {
      return nothing(buffer, "weight that is trained");
    }
    bool found = params_.find(buffer.param, Purpose::kWeight, buffer.replica) != nullptr;
    for (int state = 0; state < static_cast<int>(states_.size()); ++state) {
      found = found && params_.find(buffer.param, Purpose::kOptimizer, buffer.replica, state) != nullptr;
    }
    if (!found) {
      return wrong("buffer {} ({}) has no weight and states to go with it", buffer.id.index, buffer.name);
    }
    const Bytes bytes = gradient_bytes(program_, type(buffer.value));
    if (buffer.bytes != bytes) {  // also their distance
      return wrong("buffer {} ({}) has {} bytes for partials of {}", buffer.id.index, buffer.name, buffer.bytes, bytes);
    }
    return {};
  }

  // What other devices give to the gradient of the features of a micro-batch, of all their shards.
  Status check_dx_terms(const Buffer& buffer) const {
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    if (buffer.micro_batch < 0 || !of_replica_.contains({buffer.device, buffer.replica})) {
      return nothing(buffer, "micro-batch of its device");
    }
    const int64_t rows = program_.micro_batch_rows();
    Bytes bytes = 0;
    for (const HeadShard& shard : head.shards) {
      if (shard.device != buffer.device && shard.row_begin < shard.row_end) {
        const HeadGradientRows part = head_gradient_rows(head_shape(program_, graph_, head, shard, head.rows), 0, rows);
        bytes += part.bytes * part.subtrees;
      }
    }
    return bytes > 0 ? check_bytes(buffer, bytes) : nothing(buffer, "shard of another device");
  }

  // The slices of a gradient that the other replicas give to the one that sums them.
  Status check_gradient_terms(const Buffer& buffer) const {
    const ValueId gradient = buffer.param.valid() && program_.training ? graph_.param_grads[buffer.param] : ValueId();
    if (!gradient.valid() || !of_replica_.contains({buffer.device, buffer.replica})) {
      return nothing(buffer, "gradient of its device");
    }
    const int64_t count = type(gradient).elements(0, 0);
    const int64_t slice = count * (buffer.replica + 1) / program_.replicas - count * buffer.replica / program_.replicas;
    return check_bytes(buffer, slice * 4 * (program_.replicas - 1));
  }

  // Bytes are the kernel's: whoever makes it compares them.
  Status check_prepared(const Buffer& buffer) {
    const auto stage = buffer.node.valid() ? stage_of_.find(buffer.node) : stage_of_.end();
    if (stage == stage_of_.end() || buffer.replica < 0 ||
        program_.stages[static_cast<size_t>(stage->second)].devices[static_cast<size_t>(buffer.replica)] !=
            buffer.device) {
      return nothing(buffer, "node of its device");
    }
    const Node& node = graph_.node(buffer.node);
    const ParamId param = inside(buffer.node_input, 0, count(node.inputs))
                              ? graph_.value(node.inputs[static_cast<size_t>(buffer.node_input)]).param
                              : ParamId();
    if (!param.valid() || param != buffer.param || params_.find(param, Purpose::kWeight, buffer.replica) == nullptr ||
        !prepared_.insert({buffer.node.index, buffer.node_input, buffer.replica}).second) {
      return nothing(buffer, "weight that its node reads");
    }
    return {};
  }

  // Rows of values; those of a head pass, or all rows of the batch, where a head's buffer has them.
  Status check_rows(const Buffer& buffer) {
    if (!buffer.value.valid() || graph_.value(buffer.value).param.valid()) {
      return nothing(buffer, "value");
    }
    if (buffer.purpose == Purpose::kInput) {
      const bool known = std::any_of(graph_.inputs.begin(), graph_.inputs.end(),
                                     [&](const NamedValue& input) { return input.value == buffer.value; });
      if (!known || buffer.ring < 0 || !ring_[buffer.value].insert(buffer.ring).second) {
        return wrong("buffer {} ({}) is of no input, or of one that another has", buffer.id.index, buffer.name);
      }
      return check_bytes(buffer, type(buffer.value).bytes(program_.batch, program_.norm_rows));
    }
    if (buffer.head >= 0) {
      return check_head_rows(buffer);
    }
    const int64_t rows = buffer.micro_batch >= 0 ? program_.micro_batch_rows()
                         : buffer.replica < 0    ? program_.batch
                                                 : program_.batch / program_.replicas;
    if (type(buffer.value).sharded) {
      return nothing(buffer, "head");
    }
    return check_bytes(buffer, type(buffer.value).bytes(rows, program_.norm_rows));
  }

  Status check_head_rows(const Buffer& buffer) const {
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    const int64_t rows = buffer.head_pass >= 0 ? head.rows : program_.batch;
    const auto made_by = [&](NodeId node) {
      return node.valid() && std::ranges::count(graph_.node(node).outputs, buffer.value) > 0;
    };
    const bool result = buffer.value == head.logits || made_by(head.loss) ||
                        std::any_of(head.metrics.begin(), head.metrics.end(), made_by);
    const bool operand = buffer.value == head.feature || buffer.value == head.label || buffer.value == head.row_factor;
    if (buffer.replica >= 0 || !(buffer.purpose == Purpose::kResult     ? result
                                 : buffer.purpose == Purpose::kGathered ? operand
                                                                        : false)) {
      return nothing(buffer, "operand or result of its head");
    }
    return check_bytes(buffer, buffer.value == head.logits ? best_bytes(head, rows)
                                                           : type(buffer.value).bytes(rows, program_.norm_rows));
  }

  const HeadShard* shard_of(const Buffer& buffer) const {
    if (buffer.head < 0) {
      return nullptr;
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    return inside(buffer.shard, 0, count(head.shards)) ? &head.shards[static_cast<size_t>(buffer.shard)] : nullptr;
  }

  Status check_shard(const Buffer& buffer) const {
    const HeadShard* shard = shard_of(buffer);
    if (shard == nullptr || shard->device != buffer.device || buffer.replica >= 0 ||
        shard->row_end <= shard->row_begin) {
      return nothing(buffer, "shard of its device");
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    const bool prepared = buffer.purpose == Purpose::kHeadPrepared;
    const bool of_rows = prepared || buffer.purpose == Purpose::kHeadScale || buffer.purpose == Purpose::kHeadLast;
    if (!buffer.param.valid() || (buffer.param != head.weight && (of_rows || buffer.param != head.bias)) ||
        (!of_rows && buffer.value != graph_.param(buffer.param).value) ||
        (buffer.purpose == Purpose::kHeadOptimizer ? !inside(buffer.state, 0, count(states_)) : buffer.state >= 0)) {
      return nothing(buffer, "weight of its head, or of no state");
    }
    return check_bytes(buffer, prepared ? head_prepared_bytes(head_shape(program_, graph_, head, *shard, head.rows))
                                        : shard_bytes(head, *shard, buffer.param, buffer.purpose));
  }

  Status check_logits(const Buffer& buffer) {
    const HeadShard* shard = shard_of(buffer);
    if (shard == nullptr || shard->device != buffer.device || buffer.replica >= 0 ||
        !logits_.insert({buffer.head, buffer.shard, buffer.head_pass}).second) {
      return nothing(buffer, "shard of its device, or of one that has another");
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    return check_bytes(buffer, head_logits_bytes(head_shape(program_, graph_, head, *shard, head.rows)));
  }

  Status check_selection(const Buffer& buffer) {
    const HeadShard* shard = shard_of(buffer);
    if (shard == nullptr || shard->device != buffer.device || buffer.replica >= 0 ||
        program_.heads[static_cast<size_t>(buffer.head)].active == 0 ||
        !selections_.insert({buffer.purpose, buffer.head, buffer.shard}).second) {
      return nothing(buffer, "shard of its device that selects, or of one that has another");
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    return check_bytes(buffer, buffer.purpose == Purpose::kHeadMass
                                   ? head.rows * kHeadMassRow
                                   : head_selection(head_shape(program_, graph_, head, *shard, head.rows)).total);
  }

  // Of the graph of nearest classes.
  Status check_graph(const Buffer& buffer) {
    if (buffer.head < 0 || program_.heads[static_cast<size_t>(buffer.head)].neighbours == 0 ||
        !graphs_.insert({buffer.purpose, buffer.head}).second) {
      return nothing(buffer, "head with lists, or of one that has others");
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    return check_bytes(buffer, buffer.purpose == Purpose::kHeadLists      ? lists_bytes(head)
                               : buffer.purpose == Purpose::kHeadSnapshot ? head.classes * head.dim * 4
                                                                          : build_bytes(program_, head));
  }

  // Of all shards of a device.
  Status check_pass(const Buffer& buffer) const {
    if (buffer.head < 0 || buffer.replica >= 0) {
      return nothing(buffer, "head");
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    if (buffer.purpose == Purpose::kHeadStats) {
      return check_bytes(buffer, all_stats_bytes(parts_[static_cast<size_t>(buffer.head)]));
    }
    if (buffer.purpose == Purpose::kHeadSoftmax) {
      const int64_t rows = buffer.head_pass >= 0 ? head.rows : program_.batch;
      return check_bytes(buffer, softmax_bytes(program_, graph_, head, rows));
    }
    const Bytes bytes = device_gradient_bytes(head, parts_[static_cast<size_t>(buffer.head)], buffer.device);
    return bytes > 0 ? check_bytes(buffer, bytes) : nothing(buffer, "shard of its device");
  }

  // Every slot of the ring has every input once.
  Status check_ring() const {
    const size_t slots = ring_.empty() ? 0 : ring_.begin()->second.size();
    for (const auto& [value, of_value] : ring_) {
      if (of_value.size() != slots || *of_value.begin() != 0 || *of_value.rbegin() != static_cast<int32_t>(slots) - 1) {
        return wrong("input `{}` has {} slots up to number {}, of {}", graph_.value(value).name, of_value.size(),
                     *of_value.rbegin(), slots);
      }
    }
    if (slots == 0) {
      return wrong("no input has a slot");
    }
    return {};
  }

  // Whatever the passes of a shard take for granted.
  Status check_shards() const {
    for (size_t h = 0; h < program_.heads.size(); ++h) {
      const HeadPlan& head = program_.heads[h];
      const bool updated = program_.training && head.loss.valid() && !head.frozen;
      for (const Purpose purpose : {Purpose::kHeadLists, Purpose::kHeadSnapshot, Purpose::kHeadBuild}) {
        if (head.neighbours > 0 && !graphs_.contains({purpose, static_cast<int>(h)})) {
          return wrong("head {} lacks the memory of its graph", h);
        }
      }
      for (const HeadShard& shard : head.shards) {
        if (shard.row_end <= shard.row_begin) {
          continue;
        }
        const auto has = [&](ParamId param, Purpose purpose, int state = -1) {
          return params_.find_shard(param, purpose, shard.shard, state) != nullptr;
        };
        bool all = (head_prepared_bytes(head_shape(program_, graph_, head, shard, head.rows)) == 0 ||
                    has(head.weight, Purpose::kHeadPrepared)) &&
                   (!has_scales(head) || has(head.weight, Purpose::kHeadScale)) &&
                   (!catches_up(head) || !updated || has(head.weight, Purpose::kHeadLast));
        for (const ParamId param : {head.weight, head.bias}) {
          if (!param.valid()) {
            continue;
          }
          all = all && has(param, Purpose::kHeadWeight);
          for (int state = 0; updated && state < static_cast<int>(states_.size()); ++state) {
            all = all && has(param, Purpose::kHeadOptimizer, state);
          }
        }
        all = all &&
              (head.active == 0 || (selections_.contains({Purpose::kHeadSelection, static_cast<int>(h), shard.shard}) &&
                                    selections_.contains({Purpose::kHeadMass, static_cast<int>(h), shard.shard})));
        if (!all) {
          return wrong(
              "shard {} of head {} lacks a weight, its scales, its prepared form, a state or its active classes",
              shard.shard, h);
        }
      }
    }
    return {};
  }

  const Program& program_;
  const Module& module_;
  const Graph& graph_;
  ParamBuffers params_;
  std::vector<std::string> states_;
  Bytes norm_bytes_;
  std::vector<std::vector<ShardPart>> parts_;           // by head, by shard
  std::set<std::pair<int, int>> of_replica_;            // (device, replica) of the stages
  std::map<NodeId, int> stage_of_;                      // forward and backward nodes
  std::map<ValueId, std::set<int32_t>> ring_;           // slots of each input
  std::set<std::tuple<int32_t, int, int>> prepared_;    // (node, input, replica)
  std::set<std::tuple<int, int, int>> logits_;          // (head, shard, pass)
  std::set<std::tuple<Purpose, int, int>> selections_;  // (purpose, head, shard)
  std::set<std::pair<Purpose, int>> graphs_;            // by purpose and head
};

}  // namespace

Status verify_buffers(const Program& program, const Module& module) { return Buffers(program, module).run(); }

}  // namespace xrun::planner
