// What runs besides the passes of stages, head passes and updates: that their buffers are those that the executor's
// binding will look for, so that no row is read or written outside of one. Sizes are verify_buffers' matter.
#include <algorithm>
#include <set>

#include "planner/buffer_sizes.h"
#include "planner/verify/verify_view.h"

namespace xrun::planner {
namespace {

class Runs : OperandView {
 public:
  Runs(const Program& program, const Module& module) : OperandView(program, module), params_(program) {}

  Status run() {
    for (const Instruction& one : program_.instructions) {
      XRUN_TRY(check(one));
    }
    return {};
  }

 private:
  Status check(const Instruction& one) {
    if (one.kind == Kind::kUpdate) {
      XRUN_TRY(check_update(one));
      return check_folds(one);
    }
    if (one.kind != Kind::kRun || one.pass == Pass::kForward || one.pass == Pass::kBackward) {
      return {};
    }
    return one.pass == Pass::kFoldPartials || one.pass == Pass::kNorm ? check_update(one) : check_head_pass(one);
  }

  Status check_head_pass(const Instruction& one) const {
    if (!has_head(one)) {
      return at_fault(one, "is a pass of no head");
    }
    const HeadPlan& head = head_of(one);
    const bool sweep = one.pass == Pass::kHeadUpdate || one.pass == Pass::kHeadNorms;
    const ClipSpec& clip = module_.train.clip;
    const bool clipped = clip.kind == ClipSpec::kNorm && clip.heads;
    if ((sweep && !head.update_sweep) || (one.pass == Pass::kHeadNorms && !clipped)) {
      return at_fault(one, "is a pass that its head does not have");
    }
    for (const auto* list : {&one.reads, &one.writes}) {
      for (const BufferId id : *list) {
        const Buffer& each = buffer(id);
        const bool input = each.purpose == Purpose::kInput;
        const bool weights = each.persistent && each.head == one.head && each.shard == one.shard;
        const bool rows = of_pass(one, each) && !(sweep && each.micro_batch >= 0);
        if (!input && !weights && !rows && each.purpose != Purpose::kNorms) {
          return misplaced(one, each);
        }
      }
    }
    if ((one.pass != Pass::kReduceStats && find(one, head.feature) == nullptr) ||
        (head.label.valid() && find(one, head.label) == nullptr)) {
      return at_fault(one, "does not read the features and labels of its head");
    }
    const bool makes_stats = one.pass == Pass::kHeadForward || one.pass == Pass::kReduceStats;
    for (const auto& [purpose, wanted] : {std::pair{Purpose::kHeadStats, makes_stats},
                                          {Purpose::kHeadGradient, one.pass == Pass::kHeadBackward},
                                          {Purpose::kHeadSoftmax, one.pass != Pass::kHeadForward},
                                          {Purpose::kNorms, one.pass == Pass::kHeadNorms}}) {
      if (wanted && find(one, purpose) == nullptr) {
        return at_fault(one, "has no buffer of a kind that its head pass works on");
      }
    }
    return one.pass == Pass::kReduceStats ? check_lists(one, head) : check_shard_pass(one, head, sweep);
  }

  // A list of best classes is made with its logits.
  Status check_lists(const Instruction& one, const HeadPlan& head) const {
    for (const NodeId metric : head.metrics) {
      const auto& outputs = graph_.node(metric).outputs;
      const auto made = std::ranges::count_if(outputs, [&](ValueId output) { return find(one, output) != nullptr; });
      if (made != 0 && made != std::ssize(outputs)) {
        return at_fault(one, "makes {} of {} results of a node", made, outputs.size());
      }
    }
    return {};
  }

  Status check_shard_pass(const Instruction& one, const HeadPlan& head, bool sweep) const {
    const HeadShard& shard = head.shards[static_cast<size_t>(one.shard)];
    const HeadShape shape = head_shape(program_, graph_, head, shard, sweep ? program_.batch : head.rows);
    const Bytes bytes = head_scratch_bytes(shape, one.pass == Pass::kHeadForward    ? HeadPass::kForward
                                                  : one.pass == Pass::kHeadBackward ? HeadPass::kBackward
                                                                                    : HeadPass::kUpdate);
    const Buffer* scratch = find(one, Purpose::kHeadScratch);
    const Bytes has = scratch == nullptr ? 0 : scratch->bytes;
    if (has < bytes) {
      return at_fault(one, "has {} of {} bytes of scratch for a head pass", has, bytes);
    }
    return {};
  }

  // Gradients of its own replica, whose weights and states are there (verify_buffers).
  Status check_update(const Instruction& one) const {
    if (!on_its_device(one)) {
      return at_fault(one, "is of no stage, or elsewhere");
    }
    std::set<int32_t> moved;
    for (const BufferId id : one.writes) {
      if (buffer(id).purpose == Purpose::kWeight) {
        moved.insert(buffer(id).param.index);
      }
    }
    bool gradients = false;
    for (const BufferId id : one.reads) {
      const Buffer& each = buffer(id);
      if (each.purpose != Purpose::kGradient) {
        continue;
      }
      gradients = true;
      if (each.replica != one.replica || (one.kind == Kind::kUpdate && !moved.contains(each.param.index))) {
        return misplaced(one, each);
      }
    }
    if (one.pass == Pass::kNorm && one.kind == Kind::kRun && gradients && find(one, Purpose::kNorms) == nullptr) {
      return at_fault(one, "has no place for its sums");
    }
    return {};
  }

  // Batch statistics are folded from all row blocks of the batch into states of the replica.
  Status check_folds(const Instruction& one) const {
    for (const NodeId id : program_.stages[static_cast<size_t>(one.stage)].forward) {
      const Node& node = graph_.node(id);
      if (!node.op->folds_states) {
        continue;
      }
      for (const ValueId input : node.inputs) {
        const ParamId param = graph_.value(input).param;
        if (param.valid() && params_.find(param, Purpose::kState, one.replica) == nullptr &&
            params_.find(param, Purpose::kWeight, one.replica) == nullptr) {
          return at_fault(one, "folds states of node {} that are not there", id.index);
        }
      }
      for (const ValueId output : node.outputs) {
        const TensorType& type = graph_.value(output).type;
        const Buffer* found = nullptr;  // as the executor: one that was gathered goes before
        for (const BufferId read : one.reads) {
          const Buffer& each = buffer(read);
          if (each.value == output && (found == nullptr || each.purpose == Purpose::kGathered)) {
            found = &each;
          }
        }
        if (type.per_block() && (found == nullptr || found->bytes < type.bytes(program_.batch, program_.block_rows))) {
          return at_fault(one, "has not all statistics of node {}", id.index);
        }
      }
    }
    return {};
  }

  ParamBuffers params_;
};

}  // namespace

Status verify_runs(const Program& program, const Module& module) { return Runs(program, module).run(); }

}  // namespace xrun::planner
