// Checks the operands of stage passes: every input and output of every node has a place. For each node of a pass, in
// order, the operands are derived and compared with those in the program. A value that another pass makes or reads must
// be in a buffer with the rows of the micro-batch. A value that is made and read only in this pass may be in the
// scratch slice of a worker. At the end of the pass, values in the slice that are in use at the same time must not
// share bytes.
#include <algorithm>
#include <map>

#include "planner/verify/operand_view.h"
#include "planner/verify/verify_program.h"

namespace xrun::planner {
namespace {

class StageOperands : OperandView {
 public:
  StageOperands(const Program& program, const Module& module) : OperandView(program, module) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.purpose == Purpose::kPrepared) {
        prepared_[{buffer.node.index, buffer.node_input, buffer.replica}] = &buffer;
      }
    }
    for (const Instruction& one : program.instructions) {
      for (const Operand& operand : one.operands) {
        const bool adds = one.kind == Kind::kBackward && operand.role == Role::kOutput &&
                          program.buffer(operand.buffer).purpose == Purpose::kGradient;
        if (adds && begun_.try_emplace(operand.buffer, one.id).first->second == one.id) {
          zeroed_[one.id].insert(operand.buffer);
        }
      }
    }
  }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      if (is_stage_pass(one.kind)) {
        begin(one);
        XRUN_TRY(check_pass());
      }
    }
    return {};
  }

 private:
  // A value in the scratch slices of the workers, and the first and the last node of the pass that use it.
  struct Local {
    ValueId value;
    Bytes offset = 0;
    Bytes bytes = 0;
    size_t first = 0;
    size_t last = 0;
  };

  Status check_pass() {
    locals_.clear();
    scratch_ = nullptr;
    for (const BufferId buffer : zeroed_[one_->id]) {
      XRUN_TRY(take_whole(Role::kZeroed, Access::kWrite, &program_.buffer(buffer)));
    }
    for (size_t n = 0; n < one_->nodes.size(); ++n) {
      const Node& node = graph_.node(one_->nodes[n]);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        XRUN_TRY(check_operand(Role::kInput, node.inputs[i], n, static_cast<int32_t>(i)));
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        XRUN_TRY(check_operand(Role::kOutput, node.outputs[i], n, static_cast<int32_t>(i)));
      }
    }
    if (next_is(Role::kScratch)) {
      XRUN_TRY(check_scratch());
    } else if (!locals_.empty()) {
      return at_fault("has values in the slices of workers, and no scratch");
    }
    XRUN_TRY(end());
    return check_slices();
  }

  Status check_operand(Role role, ValueId value, size_t n, int32_t index) {
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    Operand wanted{.role = role,
                   .access = role == Role::kInput ? Access::kRead : Access::kWrite,
                   .node = one_->nodes[n],
                   .index = index};
    const ParamId param = graph_.value(value).param;
    if (buffer->purpose == Purpose::kScratch) {
      return check_local(wanted, *buffer, value, n);
    }
    if (param.valid()) {
      const auto prepared = prepared_.find({wanted.node.index, index, one_->replica});
      const Buffer* plain = prepared != prepared_.end() ? prepared->second : parameter(param);
      if (role == Role::kOutput || buffer != plain) {
        return misplaced(*buffer);
      }
      wanted.param = param;
      wanted.bytes = buffer->bytes;
      return take(wanted);
    }
    return check_rows(wanted, *buffer, value);
  }

  Status check_rows(Operand wanted, const Buffer& buffer, ValueId value) {
    const bool input = buffer.purpose == Purpose::kInput;
    const bool gradient = buffer.purpose == Purpose::kGradient;
    const bool rows = buffer.purpose == Purpose::kActivation || buffer.purpose == Purpose::kResult;
    if (buffer.value != value || !(input ? buffer.ring == 0 && wanted.role == Role::kInput : rows || gradient) ||
        (gradient ? buffer.replica != one_->replica : !holds(buffer, one_->micro_batch)) ||
        (rows && buffer.replica != one_->replica)) {
      return misplaced(buffer);
    }
    const int64_t first = program_.micro_batch_rows() * one_->micro_batch;
    if (gradient) {
      wanted.by = By::kPartial;
      wanted.bytes = type(value).bytes(0, norm_rows());
      wanted.step = buffer.bytes / program_.partials_of_replica();
      wanted.offset =
          wanted.step * (program_.partial_of(first / norm_rows()) - program_.partials_of_replica() * buffer.replica);
    } else {
      wanted.by = By::kBlock;
      wanted.bytes = wanted.step = type(value).bytes(norm_rows(), norm_rows());
      wanted.offset = type(value).bytes(first - first_row(buffer), norm_rows());
    }
    return take(wanted);
  }

  Bytes slice_of(const Buffer& scratch) const {
    return scratch.bytes / program_.threads[static_cast<size_t>(one_->device)];
  }

  // Checks a value in the scratch slices: the pass has only one scratch buffer, and the value has the same place in the
  // slice from its producer to its last reader.
  Status check_local(Operand wanted, const Buffer& buffer, ValueId value, size_t n) {
    const Operand& has = one_->operands[at_];
    if (scratch_ != nullptr && scratch_ != &buffer) {
      return misplaced(buffer);
    }
    scratch_ = &buffer;
    const auto [at, made] = locals_.try_emplace(value, Local{value, has.offset, has.bytes, n, n});
    Local& local = at->second;
    if (made && wanted.role == Role::kInput) {
      return at_fault("reads value {} in a slice before it is made", value.index);
    }
    local.last = n;
    if (local.bytes != type(value).bytes(norm_rows(), norm_rows()) ||
        !inside(local.offset, 0, slice_of(buffer) - local.bytes + 1) || local.offset % kAlignment != 0) {
      return at_fault("has value {} outside of its slice, or in {} bytes", value.index, local.bytes);
    }
    wanted.by = By::kWorker;
    wanted.step = slice_of(buffer);
    wanted.offset = local.offset;
    wanted.bytes = local.bytes;
    return take(wanted);
  }

  // Checks the scratch memory of kernels, which follows the values in a slice. Its size is compared when the kernels
  // are made.
  Status check_scratch() {
    XRUN_ASSIGN(const Buffer* buffer, next(Role::kScratch));
    const Operand& has = one_->operands[at_];
    Bytes end = 0;
    for (const auto& [value, local] : locals_) {
      end = std::max(end, local.offset + local.bytes);
    }
    if (buffer->purpose != Purpose::kScratch || (scratch_ != nullptr && scratch_ != buffer) ||
        !inside(has.offset, end, slice_of(*buffer) + 1) || !inside(has.bytes, 0, slice_of(*buffer) - has.offset + 1)) {
      return misplaced(*buffer);
    }
    return take({.role = Role::kScratch,
                 .access = Access::kWrite,
                 .by = By::kWorker,
                 .offset = has.offset,
                 .bytes = has.bytes,
                 .step = slice_of(*buffer)});
  }

  // Checks that local values which are in use at the same time do not share bytes. They are sorted by offset, and each
  // is compared with the values that begin inside it.
  Status check_slices() const {
    std::vector<const Local*> sorted;
    for (const auto& [value, local] : locals_) {
      if (local.bytes > 0) {
        sorted.push_back(&local);
      }
    }
    std::sort(sorted.begin(), sorted.end(), [](const Local* a, const Local* b) { return a->offset < b->offset; });
    for (size_t i = 0; i < sorted.size(); ++i) {
      for (size_t j = i + 1; j < sorted.size() && sorted[j]->offset < sorted[i]->offset + sorted[i]->bytes; ++j) {
        if (sorted[i]->first <= sorted[j]->last && sorted[j]->first <= sorted[i]->last) {
          return at_fault("has values {} and {} in the same bytes of a slice", sorted[i]->value.index,
                          sorted[j]->value.index);
        }
      }
    }
    return {};
  }

  std::map<std::tuple<int32_t, int32_t, int>, const Buffer*> prepared_;  // (node, input, replica)
  std::map<BufferId, InstructionId> begun_;                              // gradients: the first pass that adds to them
  std::map<InstructionId, std::set<BufferId>> zeroed_;
  std::map<ValueId, Local> locals_;  // values local to the pass
  const Buffer* scratch_ = nullptr;
};

}  // namespace

Status verify_stage_operands(const Program& program, const Module& module) {
  return StageOperands(program, module).run();
}

Status verify_operands(const Program& program, const Module& module) {
  XRUN_TRY(verify_buffers(program, module));
  XRUN_TRY(verify_head_buffers(program, module));
  XRUN_TRY(verify_nodes(program, module.graph));
  XRUN_TRY(verify_stage_operands(program, module));
  XRUN_TRY(verify_head_operands(program, module));
  XRUN_TRY(verify_join_operands(program, module));
  XRUN_TRY(verify_update_operands(program, module));
  return verify_exchange_operands(program, module);
}

}  // namespace xrun::planner
