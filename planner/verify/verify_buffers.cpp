// Checks buffers against the module: each buffer must belong to something that exists, must be at the place where the
// executor expects it, and must have the size of its values. First each buffer is checked by itself, depending on its
// purpose. Then the buffers are checked together: everything that the executor looks up must exist, such as the weight
// of each gradient, the states of each weight, and each input in each slot of the ring. verify_head_buffers.cpp checks
// the buffers of heads.
// Tests: tests/planner/verify/verify_module_test.cpp
#include <algorithm>
#include <numeric>
#include <set>

#include "graph/gradients.h"
#include "graph/layouts/compression.h"
#include "graph/layouts/norm_layout.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/compression_owners.h"
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
    case Purpose::kResidual:
      return true;
    default:
      return false;
  }
}

bool is_on_host(Purpose purpose) {
  return purpose == Purpose::kInput || purpose == Purpose::kHeadLists || purpose == Purpose::kHeadSnapshot ||
         purpose == Purpose::kHeadBuild;
}

// Whether buffers of this purpose may have a value of the graph.
bool has_value(Purpose purpose) {
  switch (purpose) {
    case Purpose::kWeight:
    case Purpose::kState:
    case Purpose::kOptimizer:
    case Purpose::kResidual:
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
        owners_(program, module),
        states_(optimizer_states(module)),
        norm_bytes_(norm_layout(module, program.senders()).bytes()) {
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
    XRUN_TRY(check_step());
    for (const Buffer& buffer : program_.buffers) {
      XRUN_TRY(check(buffer));
    }
    return check_ring();
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  // Checks that the program has the rows of a step that the module states.
  Status check_step() const {
    if (program_.batch != module_.train.batch || program_.norm_rows != module_.train.norm_rows) {
      return wrong("a batch of {} rows in row blocks of {}, where the model asks for {} in blocks of {}",
                   program_.batch, program_.norm_rows, module_.train.batch, module_.train.norm_rows);
    }
    if (program_.training == graph_.param_grads.empty() && !graph_.params.empty()) {
      return wrong("a program for {} of a graph for {}", program_.training ? "training" : "inference",
                   program_.training ? "inference" : "training");
    }
    // In a deterministic step the number of partials, and with it the order of sums, does not depend on the plan.
    const int64_t partials = std::min<int64_t>(4, program_.batch / program_.norm_rows);
    if (program_.training && (program_.deterministic ? program_.partials != partials : module_.train.deterministic)) {
      return wrong("a step with {} partials of gradients, where a deterministic one has {}", program_.partials,
                   partials);
    }
    const CompressSpec& compress = module_.train.compress;
    const bool per_node = program_.training && compress.is_on() && compress.per_node;
    if (program_.sender_replicas > 1 ? !per_node : per_node && program_.node_replicas > 1) {
      return wrong("{} replicas compress together, where {} share a node and the model asks for compression {}",
                   program_.sender_replicas, program_.node_replicas, per_node ? "by node" : "by replica or none");
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
      case Purpose::kResidual:
      case Purpose::kGradient:
        return check_parameter(buffer);
      case Purpose::kPrepared:
        return check_prepared(buffer);
      case Purpose::kInput:
      case Purpose::kActivation:
      case Purpose::kGathered:
      case Purpose::kResult:
        return check_rows(buffer);
      case Purpose::kPairs:
        return check_pairs(buffer);
      case Purpose::kTerms:
        return buffer.head >= 0 ? Status() : check_gradient_terms(buffer);
      case Purpose::kNorms:
        return check_bytes(buffer, norm_bytes_);
      default:  // buffers of heads, or scratch memory, whose size is checked with the operands
        break;
    }
    return {};
  }

  // Checks a buffer of a parameter. It must be on the device of the stage for its `replica`.
  Status check_parameter(const Buffer& buffer) const {
    const bool gradient = buffer.purpose == Purpose::kGradient;
    if (!buffer.param.valid() || !buffer.value.valid() || graph_.param(buffer.param).head ||
        !of_replica_.contains({buffer.device, buffer.replica})) {
      return nothing(buffer, "parameter of its device");
    }
    if (gradient) {
      return check_gradient(buffer);
    }
    const bool residual = buffer.purpose == Purpose::kResidual;
    const bool state = residual || buffer.purpose == Purpose::kOptimizer;
    if (buffer.value != graph_.param(buffer.param).value || (residual && !keeps_residual(buffer)) ||
        (state ? residual != compressed(buffer.param) || !inside(buffer.state, 0, states_of(buffer.param))
               : buffer.state >= 0)) {
      return nothing(buffer, "parameter or state");
    }
    return check_bytes(buffer, type(buffer.value).bytes(0, program_.norm_rows));
  }

  // Checks a buffer of a gradient, and that its weight has buffers on the same replica, where the update expects
  // them.
  Status check_gradient(const Buffer& buffer) const {
    if (!has_gradient(graph_, buffer.param) ||
        graph_.param_grads[static_cast<size_t>(buffer.param.index)] != buffer.value) {
      return nothing(buffer, "weight that is trained");
    }
    const ParamId weight = params_.holder(graph_, buffer.param, buffer.replica, buffer.device);
    const auto has = [&](Purpose purpose, int state) {
      return params_.find(weight, purpose, buffer.replica, buffer.device, state) != nullptr;
    };
    bool found = has(Purpose::kWeight, -1);
    const Purpose purpose = compressed(buffer.param) ? Purpose::kResidual : Purpose::kOptimizer;
    const bool elsewhere = compressed(buffer.param) && !keeps_residual(buffer);
    for (int state = 0; !elsewhere && state < states_of(buffer.param); ++state) {
      found = found && has(purpose, state);
    }
    if (!found) {
      return wrong("buffer {} ({}) has no weight and states to go with it", buffer.id.index, buffer.name);
    }
    const Bytes bytes = gradient_bytes(program_, type(buffer.value));
    if (buffer.bytes != bytes) {  // the distance between partials is computed from the size
      return wrong("buffer {} ({}) has {} bytes for partials of {}", buffer.id.index, buffer.name, buffer.bytes, bytes);
    }
    return {};
  }

  bool compressed(ParamId param) const { return owners_.compresses(param); }
  // Whether the replica of a buffer compresses the gradient of the buffer's parameter.
  bool keeps_residual(const Buffer& buffer) const {
    return compressed(buffer.param) && owners_.owns(buffer.param, buffer.replica);
  }
  int states_of(ParamId param) const {
    return static_cast<int>(compressed(param) ? std::size(kResidualStates) : states_.size());
  }

  Status check_pairs(const Buffer& buffer) const {
    if (!program_.training || !buffer.param.valid() || !compressed(buffer.param) ||
        !of_replica_.contains({buffer.device, buffer.replica})) {
      return nothing(buffer, "compressed gradient of its device");
    }
    return check_bytes(buffer, pairs_bytes(module_, buffer.param) * program_.senders());
  }

  // Checks a buffer of terms of a gradient: either slices that the other replicas send to the replica that sums them,
  // or the whole gradient of a tied weight that another stage sends.
  Status check_gradient_terms(const Buffer& buffer) const {
    const ValueId gradient = buffer.param.valid() && program_.training ? graph_.param_grads[buffer.param] : ValueId();
    if (!gradient.valid() || !of_replica_.contains({buffer.device, buffer.replica})) {
      return nothing(buffer, "gradient of its device");
    }
    if (params_.find(buffer.param, Purpose::kGradient, buffer.replica, buffer.device) == nullptr) {
      return check_bytes(buffer, type(gradient).bytes(0, program_.norm_rows));
    }
    const ReplicaSums sums = compressed(buffer.param) ? owners_.sums(buffer.param) : ReplicaSums(program_);
    return check_bytes(buffer, sums.terms(type(gradient).elements(0, 0), buffer.replica));
  }

  // Checks a buffer of a prepared weight, except for its size, which depends on the kernel and is compared when the
  // kernel is made.
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
    if (!param.valid() || params_.holder(graph_, param, buffer.replica, buffer.device) != buffer.param ||
        params_.find(buffer.param, Purpose::kWeight, buffer.replica, buffer.device) == nullptr ||
        !prepared_.insert({buffer.node.index, buffer.node_input, buffer.replica}).second) {
      return nothing(buffer, "weight that its node reads");
    }
    return {};
  }

  // Checks buffers with rows of values, except the buffers of heads.
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
      return {};
    }
    const int64_t rows = buffer.micro_batch >= 0 ? program_.micro_batch_rows()
                         : buffer.replica < 0    ? program_.batch
                                                 : program_.batch / program_.replicas;
    if (type(buffer.value).sharded) {
      return nothing(buffer, "head");
    }
    return check_bytes(buffer, type(buffer.value).bytes(rows, program_.norm_rows));
  }

  // Checks that every slot of the ring has every input once.
  Status check_ring() const {
    const size_t slots = ring_.empty() ? 0 : ring_.begin()->second.size();
    for (const auto& [value, of_value] : ring_) {
      if (of_value.size() != slots || *of_value.begin() != 0 || *of_value.rbegin() != static_cast<int32_t>(slots) - 1) {
        return wrong("input `{}` has {} slots up to number {}, of {}", graph_.value(value).name, of_value.size(),
                     *of_value.rbegin(), slots);
      }
    }
    // A model without outputs, metrics and evaluations has an inference program that computes nothing.
    if (slots == 0 && !graph_.nodes.empty()) {
      return wrong("no input has a slot");
    }
    return {};
  }

  const Program& program_;
  const Module& module_;
  const Graph& graph_;
  ParamBuffers params_;
  CompressionOwners owners_;
  std::vector<std::string> states_;
  Bytes norm_bytes_;
  std::set<std::pair<int, int>> of_replica_;          // (device, replica) of the stages
  std::map<NodeId, int> stage_of_;                    // forward and backward nodes
  std::map<ValueId, std::set<int32_t>> ring_;         // slots of each input
  std::set<std::tuple<int32_t, int, int>> prepared_;  // (node, input, replica)
};

}  // namespace

Status verify_buffers(const Program& program, const Module& module) { return Buffers(program, module).run(); }

}  // namespace xrun::planner
