// Functions that the checks of all instructions of a head use: they check the operands with the rows, statistics,
// softmax and selection of a pass.
#pragma once

#include <vector>

#include "planner/verify/operand_view.h"

namespace xrun::planner {

class HeadOperandView : protected OperandView {
 protected:
  HeadOperandView(const Program& program, const Module& module) : OperandView(program, module) {
    for (const HeadPlan& head : program.heads) {
      parts_.push_back(shard_parts(program, graph_, head));
    }
  }

  bool one_pass() const { return head().rows == program_.batch; }
  // Whether each pass has separate buffers, because the rows of a pass are not contiguous in the batch.
  bool apart() const { return program_.replicas > 1 && !one_pass(); }
  int64_t rows() const { return is_head_sweep(one_->kind) ? program_.batch : head().rows; }

  // Whether a buffer of the head has the rows on which the instruction works. The buffer may have only the rows of the
  // pass, or all rows of the batch if the rows of the pass are contiguous there.
  bool has_its_rows(const Buffer& buffer) const {
    if (is_head_sweep(one_->kind)) {
      return buffer.head_pass < 0;
    }
    return buffer.head_pass < 0 ? !apart() : buffer.head_pass == one_->head_pass;
  }

  // Returns the instruction's first row in a buffer for which has_its_rows is true.
  int64_t row_in(const Buffer& buffer) const {
    return buffer.head_pass >= 0 || is_head_sweep(one_->kind) ? 0 : head().rows * one_->head_pass;
  }

  // Checks that the instruction has a head and a pass. A sweep has no pass, since it covers the rows of all passes.
  Status check_place() const {
    const bool sweep = is_head_sweep(one_->kind);
    if (!has_head() || one_->stage >= 0 || (sweep ? one_->head_pass >= 0 : one_->head_pass < 0)) {
      return at_fault("is a pass of no head");
    }
    return {};
  }

  Status take_rows(Role role, ValueId value) {
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    const bool input = buffer->purpose == Purpose::kInput && buffer->ring == 0;
    const bool gathered = buffer->purpose == Purpose::kGathered && buffer->head == one_->head;
    if (buffer->value != value || !(input || gathered) || !has_its_rows(*buffer)) {
      return misplaced(*buffer);
    }
    return take({.role = role,
                 .access = Access::kRead,
                 .offset = type(value).bytes(row_in(*buffer), norm_rows()),
                 .bytes = type(value).bytes(rows(), norm_rows())});
  }

  Status take_factors() {
    return head().row_factor.valid() ? take_rows(Role::kRowFactor, head().row_factor) : Status();
  }

  Status take_softmax(Access access) {
    XRUN_ASSIGN(const Buffer* buffer, next(Role::kSoftmax));
    if (buffer->purpose != Purpose::kHeadSoftmax || buffer->head != one_->head || !has_its_rows(*buffer)) {
      return misplaced(*buffer);
    }
    return take({.role = Role::kSoftmax,
                 .access = access,
                 .offset = row_in(*buffer) * kHeadSoftmaxRow,
                 .bytes = rows() * kHeadSoftmaxRow});
  }

  // Takes the next operand, which must be a shard's part of statistics or of dX partials.
  Status take_part(Role role, Access access, const HeadShard& shard) {
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    const bool stats = role == Role::kStats;
    if (buffer->purpose != (stats ? Purpose::kHeadStats : Purpose::kHeadGradient) || buffer->head != one_->head ||
        buffer->head_pass != one_->head_pass) {
      return misplaced(*buffer);
    }
    const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(shard.shard)];
    return take({.role = role,
                 .access = access,
                 .index = shard.shard,
                 .offset = stats ? part.stats_offset : part.gradient_offset,
                 .bytes = stats ? part.stats : part.gradient});
  }

  Status take_selection(Access access, int shard) {
    if (head().active == 0) {
      return {};
    }
    XRUN_ASSIGN(const Buffer* buffer, next(Role::kSelection));
    if (buffer->purpose != Purpose::kHeadSelection || buffer->head != one_->head || buffer->shard != shard) {
      return misplaced(*buffer);
    }
    return take_whole(Role::kSelection, access, buffer);
  }

  std::vector<std::vector<ShardPart>> parts_;  // index: head, shard
};

}  // namespace xrun::planner
