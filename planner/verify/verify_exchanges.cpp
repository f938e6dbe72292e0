// Exchanges: that what instructions send, receive, gather, scatter, sum and copy are rows of the right micro-batches.
#include <set>

#include "planner/verify/verify_view.h"

namespace xrun::planner {
namespace {

class Exchanges : OperandView {
 public:
  Exchanges(const Program& program, const Module& module) : OperandView(program, module) {}

  Status run() {
    for (const Instruction& one : program_.instructions) {
      XRUN_TRY(check(one));
    }
    return {};
  }

 private:
  Status check(const Instruction& one) {
    switch (one.kind) {
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
      case Kind::kRun:
      case Kind::kUpdate:
      case Kind::kFree:
        break;
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
};

}  // namespace

Status verify_exchanges(const Program& program, const Module& module) { return Exchanges(program, module).run(); }

}  // namespace xrun::planner
