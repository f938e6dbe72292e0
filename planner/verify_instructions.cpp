// Instructions other than the passes of stages: that their buffers are those that the executor's binding will look for
// (planner/program.h says which), so that no row is read or written outside of one. Sizes are verify_buffers' matter.
#include <algorithm>
#include <set>

#include "planner/buffer_sizes.h"
#include "planner/verify_parts.h"

namespace xrun::planner {
namespace {

class Instructions {
 public:
  Instructions(const Program& program, const Module& module)
      : program_(program), module_(module), graph_(module.graph), params_(program) {}

  Status run() {
    for (const Instruction& one : program_.instructions) {
      XRUN_TRY(check(one));
    }
    return {};
  }

 private:
  Status check(const Instruction& one) {
    switch (one.kind) {
      case Kind::kRun:
        if (one.pass == Pass::kFoldLanes || one.pass == Pass::kNorm) {
          return check_update(one);
        }
        return one.pass == Pass::kForward || one.pass == Pass::kBackward ? Status() : check_head_pass(one);
      case Kind::kSend:
      case Kind::kRecv:
        return check_pair_member(one);
      case Kind::kAllGather:
        return check_gather(one);
      case Kind::kReduceScatter:
        return check_scatter(one);
      case Kind::kAllReduce:
        return check_reduce(one);
      case Kind::kCopy:
        return check_copy(one);
      case Kind::kUpdate:
        XRUN_TRY(check_update(one));
        return check_folds(one);
      case Kind::kFree:
        break;
    }
    return {};
  }

  template <typename... Args>
  static Error at_fault(const Instruction& one, fmt::format_string<Args...> what, Args&&... args) {
    return wrong("instruction {} ({}) {}", one.id.index, name_of(one.kind),
                 fmt::format(what, std::forward<Args>(args)...));
  }

  static Error misplaced(const Instruction& one, const Buffer& buffer) {
    return at_fault(one, "cannot work on buffer {} ({})", buffer.id.index, buffer.name);
  }

  const Buffer& buffer(BufferId id) const { return program_.buffer(id); }
  int per_replica() const { return program_.micro_batches / program_.replicas; }
  bool has_head(const Instruction& one) const { return inside(one.head, 0, count(program_.heads)); }
  const HeadPlan& head_of(const Instruction& one) const { return program_.heads[static_cast<size_t>(one.head)]; }

  // The buffer that the executor finds: the first one among reads, then writes.
  template <typename Fits>
  const Buffer* find(const Instruction& one, const Fits& fits) const {
    for (const auto* list : {&one.reads, &one.writes}) {
      for (const BufferId id : *list) {
        if (fits(buffer(id))) {
          return &buffer(id);
        }
      }
    }
    return nullptr;
  }
  const Buffer* find(const Instruction& one, Purpose purpose) const {
    return find(one, [&](const Buffer& each) { return each.purpose == purpose; });
  }
  const Buffer* find(const Instruction& one, ValueId value) const {
    return find(one, [&](const Buffer& each) { return value.valid() && each.value == value; });
  }

  // Whether a stage's buffer has the rows of a micro-batch, counted globally.
  bool holds(const Buffer& rows, int micro_batch) const {
    const bool of_stage = rows.purpose == Purpose::kActivation || rows.purpose == Purpose::kResult;
    return of_stage && rows.head < 0 &&
           (rows.micro_batch >= 0 ? rows.micro_batch == micro_batch
                                  : rows.replica < 0 || rows.replica == micro_batch / per_replica());
  }

  // The micro-batch, counted globally, whose rows a member of a head's collective gives or takes; -1 for none.
  int micro_batch_of(const Instruction& one, const Buffer& rows) const {
    if (!inside(one.micro_batch, 0, per_replica())) {
      return -1;
    }
    if (rows.micro_batch >= 0) {
      return rows.micro_batch % per_replica() == one.micro_batch ? rows.micro_batch : -1;
    }
    return one.replica < 0 ? -1 : one.replica * per_replica() + one.micro_batch;
  }

  // A head's buffer with the rows of pass `one.micro_batch`, or with all.
  static bool of_pass(const Instruction& one, const Buffer& rows) {
    return rows.head == one.head && (rows.micro_batch < 0 || rows.micro_batch == one.micro_batch);
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

  Status check_copy(const Instruction& one) const {
    if (!has_head(one) || !inside(one.micro_batch, 0, per_replica()) || one.reads.size() != one.writes.size()) {
      return at_fault(one, "copies {} buffers to {} for pass {} of head {}", one.reads.size(), one.writes.size(),
                      one.micro_batch, one.head);
    }
    for (size_t i = 0; i < one.reads.size(); ++i) {
      const Buffer& from = buffer(one.reads[i]);
      const Buffer& to = buffer(one.writes[i]);
      const bool rows = to.purpose == Purpose::kGathered || to.purpose == Purpose::kResult;
      if (!of_pass(one, to) || (!rows && to.purpose != Purpose::kHeadSoftmax)) {
        return misplaced(one, to);
      }
      const bool fed = from.purpose == Purpose::kInput && to.purpose == Purpose::kGathered;
      if (from.value != to.value || !(fed || (from.purpose == to.purpose && of_pass(one, from)))) {
        return misplaced(one, from);
      }
    }
    return {};
  }

  // The pair fits together (verify_passes); here: it carries rows of a micro-batch.
  Status check_pair_member(const Instruction& one) const {
    const bool send = one.kind == Kind::kSend;
    const auto& list = send ? one.reads : one.writes;
    if (list.size() != 1 || one.micro_batch < 0) {
      return at_fault(one, "carries {} buffers of micro-batch {}", list.size(), one.micro_batch);
    }
    const Buffer& rows = buffer(list[0]);
    const bool slot = rows.purpose == Purpose::kActivation && rows.micro_batch == one.micro_batch;
    return holds(rows, one.micro_batch) && (send || slot) ? Status() : misplaced(one, rows);
  }

  Status check_gather(const Instruction& one) const {
    for (const bool write : {false, true}) {
      for (const BufferId id : write ? one.writes : one.reads) {
        const Buffer& each = buffer(id);
        bool fits = false;
        if (one.head < 0) {
          // Norms in place; batch statistics from the blocks of a replica to those of all.
          const bool statistics = each.value.valid() && graph_.value(each.value).type.per_block() && each.head < 0 &&
                                  each.micro_batch < 0 && (each.replica < 0) == write &&
                                  each.purpose == (write ? Purpose::kGathered : Purpose::kActivation);
          fits = each.purpose == Purpose::kNorms || statistics;
        } else if (each.purpose == Purpose::kHeadStats) {
          fits = each.head == one.head;
        } else if (write) {
          fits =
              each.purpose == Purpose::kGathered && each.head == one.head && inside(one.micro_batch, 0, per_replica());
        } else {
          const HeadPlan& head = head_of(one);
          const int micro_batch = micro_batch_of(one, each);
          fits =
              (each.value == head.feature || each.value == head.label) && micro_batch >= 0 && holds(each, micro_batch);
        }
        if (!fits) {
          return misplaced(one, each);
        }
      }
    }
    return {};
  }

  Status check_scatter(const Instruction& one) const {
    if (!has_head(one)) {
      return at_fault(one, "is of no head");
    }
    const HeadPlan& head = head_of(one);
    for (const BufferId id : one.reads) {
      const Buffer& each = buffer(id);
      const int micro_batch = micro_batch_of(one, each);
      const bool feature = each.value == head.feature && micro_batch >= 0 && holds(each, micro_batch);
      if (!feature && (each.purpose != Purpose::kHeadGradient || each.head != one.head)) {
        return misplaced(one, each);
      }
    }
    for (const BufferId id : one.writes) {
      const Buffer& out = buffer(id);
      const int micro_batch = micro_batch_of(one, out);
      const Buffer* feature = find(one, head.feature);
      if (!head.feature_grad.valid() || out.value != head.feature_grad || micro_batch < 0 || !holds(out, micro_batch) ||
          feature == nullptr || !holds(*feature, micro_batch)) {
        return misplaced(one, out);
      }
    }
    return one.writes.empty() ? Status() : check_givers(one, head);
  }

  // Every shard with rows gives its partial gradients.
  Status check_givers(const Instruction& one, const HeadPlan& head) const {
    std::set<int> giving;
    for (const Instruction* member = first_of_group(one); member != nullptr; member = next_of_group(*member)) {
      if (find(*member, Purpose::kHeadGradient) != nullptr) {
        giving.insert(member->device);
      }
    }
    for (const HeadShard& shard : head.shards) {
      if (shard.row_end > shard.row_begin && !giving.contains(shard.device)) {
        return at_fault(one, "lacks what shard {} of its head gives", shard.shard);
      }
    }
    return {};
  }

  const Instruction* first_of_group(const Instruction& one) const {
    int32_t at = one.id.index;
    while (at > 0 && program_.instruction(InstructionId(at - 1)).group == one.group) {
      --at;
    }
    return &program_.instruction(InstructionId(at));
  }

  const Instruction* next_of_group(const Instruction& one) const {
    const int32_t next = one.id.index + 1;
    const bool more = next < static_cast<int32_t>(program_.instructions.size()) &&
                      program_.instruction(InstructionId(next)).group == one.group;
    return more ? &program_.instruction(InstructionId(next)) : nullptr;
  }

  bool on_its_device(const Instruction& one) const {
    return one.stage >= 0 && one.replica >= 0 &&
           program_.stages[static_cast<size_t>(one.stage)].devices[static_cast<size_t>(one.replica)] == one.device;
  }

  // Terms are told apart by their place alone: every member gives the same weights in the same order.
  Status check_reduce(const Instruction& one) const {
    const Instruction& first = *first_of_group(one);
    if (!on_its_device(one) || one.reads != one.writes || one.reads.size() != first.reads.size()) {
      return at_fault(one, "sums {} buffers into {}", one.reads.size(), one.writes.size());
    }
    for (size_t i = 0; i < one.reads.size(); ++i) {
      const Buffer& each = buffer(one.reads[i]);
      if (each.purpose != Purpose::kGradient || each.replica != one.replica ||
          each.param != buffer(first.reads[i]).param) {
        return misplaced(one, each);
      }
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

  const Program& program_;
  const Module& module_;
  const Graph& graph_;
  ParamBuffers params_;
};

}  // namespace

Status verify_instructions(const Program& program, const Module& module) { return Instructions(program, module).run(); }

}  // namespace xrun::planner
