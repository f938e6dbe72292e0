// The rules for sums of dX: over all shards, on a device that made the features, or over neighbouring shards of a node.
// Tests: tests/planner/verify/symbolic_run_test.cpp
#include <algorithm>

#include "planner/program/dx_terms.h"
#include "planner/verify/symbolic_run.h"

namespace xrun::planner {

// The classes of the terms follow from the first shard of each term. They must be neighbours, in ascending order, and
// together be all classes of the head or, in a sum on a node, those of the result.
Status SymbolicRun::sum_dx() {
  const bool on_node = one_->kind == Kind::kSumDx;
  if (one_->head < 0 || one_->replica < 0 || on_node != (one_->shard >= 0) ||
      !inside(one_->gather, 0, program_.micro_batches_of_replica()) || !head().feature_grad.valid() ||
      one_->head_pass != (head().rows == program_.batch ? 0 : one_->gather)) {
    return at_fault("sums the dX of no micro-batch");
  }
  const ValueId feature = head().feature;
  const auto rows_of = [&](ValueId value) -> Segment {
    const int64_t rows = program_.micro_batch_rows();
    return {bytes_of(value, rows * micro_batch()), bytes_of(value, rows)};
  };
  if (!on_node) {
    XRUN_TRY(take({.role = Role::kFeature, .access = Access::kRead}, value_of(feature), rows_of(feature)));
  }
  for (const Operand& operand : one_->operands) {
    if (operand.role == Role::kDx && !inside(operand.index, 0, count(head().shards))) {
      return at_fault("sums the dX of shard {}, which the head does not have", operand.index);
    }
  }
  const std::vector<ClassRange> terms = classes_of_dx_terms(*one_, head());
  const ClassRange all = terms.empty() ? ClassRange() : ClassRange{terms.front().begin, terms.back().end};
  if (terms.empty() ||
      (on_node ? !inside(one_->shard, 0, count(head().shards)) : all != ClassRange{0, head().classes})) {
    return at_fault("sums the dX of classes {} to {} of {}", all.begin, all.end, head().classes);
  }
  for (const ClassRange& classes : terms) {
    XRUN_TRY(take_dx_term(classes));
  }
  if (const Bytes scratch = dx_scratch_bytes(program_, graph_, head(), terms); scratch > 0) {
    XRUN_TRY(take_scratch(scratch, false));
  }
  if (!on_node) {
    const ValueId gradient = head().feature_grad;
    XRUN_TRY(take({.role = Role::kFeatureGradient, .access = Access::kWrite}, value_of(gradient), rows_of(gradient)));
    return end();
  }
  XRUN_ASSIGN(const DxTerm result, dx_term(all, one_->shard));
  XRUN_ASSIGN(const Operand* has, next({.role = Role::kDx, .access = Access::kWrite, .index = result.shards.front()}));
  const HeadGradientRows rows = dx_rows(program_, graph_, head(), result, one_->replica, one_->gather);
  XRUN_TRY(check_aligned(*has, sizeof(float)));
  if (has->bytes != rows.bytes || result.shards.size() < 2) {
    return at_fault("has a wrong operand {} ({})", at_ - 1, name_of(has->role));
  }
  for (int64_t i = 0; i < rows.subtrees; ++i) {
    XRUN_TRY(touch(*has, has->offset + i * has->step, rows.bytes, true));
    put(has->buffer, has->offset + i * has->step, rows.bytes, symbol_of(result), i * rows.bytes);
  }
  return end();
}

// Returns the term of the shards, from shard `first` on, that have exactly these classes.
Result<DxTerm> SymbolicRun::dx_term(const ClassRange& classes, int first) const {
  const auto& shards = head().shards;
  DxTerm term{.shards = {}, .classes = classes};
  int64_t row = classes.begin;
  for (auto s = static_cast<size_t>(first); s < shards.size() && row < classes.end; ++s) {
    if (shards[s].row_begin < shards[s].row_end) {
      term.shards.push_back(shards[s].shard);
    }
    row = shards[s].row_end;
  }
  const bool begins = shards[static_cast<size_t>(first)].row_begin == classes.begin;
  if (!begins || term.shards.empty() || term.shards.front() != first || row != classes.end) {
    return at_fault("has a term of dX for classes {} to {} of shard {}", classes.begin, classes.end, first);
  }
  return term;
}

Content SymbolicRun::symbol_of(const DxTerm& term) const {
  return term.is_summed()
             ? Content{.what = What::kDxSum,
                       .id = one_->head,
                       .first = term.shards.front(),
                       .last = term.shards.back() + 1,
                       .pass = micro_batch()}
             : Content{.what = What::kDx, .id = one_->head, .first = term.shards.front(), .pass = one_->head_pass};
}

// Takes a term: the rows of the micro-batch in each of the partials of one shard, or of the sum over several shards.
Status SymbolicRun::take_dx_term(const ClassRange& classes) {
  if (!next_is(Role::kDx)) {
    return at_fault("has no operand for the dX of classes {} to {}", classes.begin, classes.end);
  }
  XRUN_ASSIGN(const DxTerm term, dx_term(classes, one_->operands[at_].index));
  XRUN_ASSIGN(const Operand* has, next({.role = Role::kDx, .access = Access::kRead, .index = term.shards.front()}));
  const HeadGradientRows rows = dx_rows(program_, graph_, head(), term, one_->replica, one_->gather);
  XRUN_TRY(check_aligned(*has, sizeof(float)));
  if (has->bytes != rows.bytes) {
    return at_fault("has a wrong operand {} ({})", at_ - 1, name_of(has->role));
  }
  for (int64_t i = 0; i < rows.subtrees; ++i) {
    const Bytes place = has->offset + i * has->step;
    XRUN_TRY(touch(*has, place, rows.bytes, false));
    XRUN_TRY(need(has->buffer, place, rows.bytes, symbol_of(term),
                  term.is_summed() ? i * rows.bytes : rows.begin + i * rows.step));
  }
  return {};
}

}  // namespace xrun::planner
