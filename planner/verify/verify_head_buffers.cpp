// Checks the buffers of heads. Each buffer is checked depending on its purpose: it must have the size of the values
// that are written into it. At the end, every shard must have all buffers that its passes use.
// Tests: tests/planner/verify/verify_module_test.cpp, tests/planner/verify/verify_selection_test.cpp
#include <algorithm>
#include <set>

#include "graph/gradients.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/dx_terms.h"
#include "planner/verify/verify_parts.h"

namespace xrun::planner {
namespace {

class HeadBuffers {
 public:
  HeadBuffers(const Program& program, const Module& module)
      : program_(program), graph_(module.graph), params_(program), states_(optimizer_states(module)) {}

  Status run() {
    add_heads();
    for (const Buffer& buffer : program_.buffers) {
      XRUN_TRY(check(buffer));
    }
    return check_shards();
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  void add_heads() {
    for (const HeadPlan& head : program_.heads) {
      parts_.push_back(shard_parts(program_, graph_, head));
      dx_terms_.emplace_back(head, program_.device_nodes);
    }
    for (const Stage& stage : program_.stages) {
      for (size_t replica = 0; replica < stage.devices.size(); ++replica) {
        stage_devices_.emplace(stage.devices[replica], static_cast<int>(replica));
      }
    }
  }

  Status check(const Buffer& buffer) {
    switch (buffer.purpose) {
      case Purpose::kActivation:
      case Purpose::kGathered:
      case Purpose::kResult:
        return buffer.head >= 0 ? check_rows(buffer) : Status();
      case Purpose::kTerms:
        return buffer.head >= 0 ? check_dx(buffer) : Status();
      case Purpose::kHeadSums:
        return buffer.head >= 0 ? check_dx(buffer) : nothing(buffer, "head");
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
      default:  // the size of scratch memory is checked with the operands
        return {};
    }
  }

  // Checks a buffer of terms from other devices (kTerms), or of the sum of a node's shards (kHeadSums). Any device
  // of the node may compute the sum.
  Status check_dx(const Buffer& buffer) const {
    const auto head = static_cast<size_t>(buffer.head);
    const DxTerms& terms = dx_terms_[head];
    const int replica = buffer.micro_batch < 0 ? -1 : buffer.micro_batch / program_.micro_batches_of_replica();
    const bool of_stage = replica >= 0 && stage_devices_.contains({buffer.device, replica});
    const DxTerm* on_node = buffer.shard < 0 ? nullptr : terms.on_node(buffer.shard);
    Bytes bytes = 0;
    if (buffer.shard < 0 && buffer.purpose == Purpose::kTerms && of_stage && buffer.replica == replica) {
      bytes = received_bytes(buffer, terms.of_sum(buffer.device, 0));
    } else if (on_node != nullptr && replica >= 0 && buffer.replica < 0 &&
               terms.devices_of(*on_node).contains(buffer.device)) {
      bytes = buffer.purpose == Purpose::kTerms ? received_bytes(buffer, terms.shards_of(*on_node))
                                                : bytes_of(buffer, *on_node);
    }
    return bytes > 0 ? check_bytes(buffer, bytes) : nothing(buffer, "sum of feature gradients");
  }

  Bytes bytes_of(const Buffer& buffer, const DxTerm& term) const {
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    const HeadGradientRows rows = dx_rows(program_, graph_, head, term, 0, 0);
    return rows.bytes * rows.subtrees;
  }

  Bytes received_bytes(const Buffer& buffer, const std::vector<DxTerm>& terms) const {
    Bytes bytes = 0;
    for (const DxTerm& term : terms) {
      bytes += term.device == buffer.device ? 0 : bytes_of(buffer, term);
    }
    return bytes;
  }

  // Checks a buffer with rows of a value, which are those of a head pass or all rows of the batch.
  Status check_rows(const Buffer& buffer) const {
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

  // Checks buffers of the graph of nearest classes.
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

  // Checks a buffer of statistics (all shards), of softmax, or of dX partials (all shards of the device).
  Status check_pass(const Buffer& buffer) {
    if (buffer.head < 0 || buffer.replica >= 0) {
      return nothing(buffer, "head");
    }
    const HeadPlan& head = program_.heads[static_cast<size_t>(buffer.head)];
    if (buffer.purpose == Purpose::kHeadStats) {
      return check_bytes(buffer, all_stats_bytes(parts_[static_cast<size_t>(buffer.head)]));
    }
    if (buffer.purpose == Purpose::kHeadSoftmax) {
      if (buffer.head_pass >= 0 && head.rows == program_.batch) {
        return nothing(buffer, "head pass");  // one pass has all rows, and its softmax belongs to no pass
      }
      // Predictions read the softmax of each row from the one buffer of its pass.
      if (!program_.training && !softmax_.emplace(buffer.head, buffer.head_pass).second) {
        return nothing(buffer, "pass without another softmax");
      }
      const int64_t rows = buffer.head_pass >= 0 ? head.rows : program_.batch;
      return check_bytes(buffer, softmax_bytes(program_, graph_, head, rows));
    }
    const Bytes bytes = device_gradient_bytes(head, parts_[static_cast<size_t>(buffer.head)], buffer.device);
    return bytes > 0 ? check_bytes(buffer, bytes) : nothing(buffer, "shard of its device");
  }

  // Checks that all buffers that the passes of the shards use exist.
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
  const Graph& graph_;
  ParamBuffers params_;
  std::vector<std::string> states_;
  std::vector<std::vector<ShardPart>> parts_;           // index: head, shard
  std::vector<DxTerms> dx_terms_;                       // index: head
  std::set<std::pair<int, int>> stage_devices_;         // devices of stages, each with its replica
  std::set<std::tuple<int32_t, int, int>> logits_;      // (head, shard, pass)
  std::set<std::tuple<Purpose, int, int>> selections_;  // (purpose, head, shard)
  std::set<std::pair<Purpose, int>> graphs_;            // purpose and head
  std::set<std::pair<int, int>> softmax_;               // head and pass, in inference
};

}  // namespace

Status verify_head_buffers(const Program& program, const Module& module) { return HeadBuffers(program, module).run(); }

}  // namespace xrun::planner
