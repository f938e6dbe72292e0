// The rules for passes of a stage. A pass runs its nodes on one row block after the other, and workers share the
// blocks. The rows of a value in a buffer therefore belong to one value during a pass, and the slice of a worker holds
// the values of one row block, from node to node.
// Tests: tests/planner/verify/symbolic_run_test.cpp
#include <algorithm>

#include "planner/verify/symbolic_run.h"

namespace xrun::planner {
namespace {

// Whether micro-batch `m` adds to gradient partial `partial`. The partials of its row blocks are in ascending order.
bool adds(const Program& program, int m, int64_t partial) {
  const int64_t blocks = program.batch / program.norm_rows / program.micro_batches;
  int64_t begin = blocks * m;
  int64_t end = begin + blocks;
  const int64_t last = end;
  while (begin < end) {
    const int64_t middle = (begin + end) / 2;
    (program.partial_of(middle) < partial ? begin : end) = program.partial_of(middle) < partial ? middle + 1 : middle;
  }
  return begin < last && program.partial_of(begin) == partial;
}

}  // namespace

Status SymbolicRun::stage_pass() {
  rows_.clear();
  slice_.clear();
  kernels_ = nullptr;
  if (!one_->operands.empty() && one_->operands.back().role == Role::kScratch) {
    kernels_ = &one_->operands.back();
  }
  while (next_is(Role::kZeroed)) {
    XRUN_ASSIGN(const Operand* has, next({.role = Role::kZeroed, .access = Access::kWrite}));
    XRUN_TRY(touch(*has, has->offset, has->bytes, true));
    put(has->buffer, has->offset, has->bytes, {.what = What::kZero}, 0);
  }
  for (const NodeId id : one_->nodes) {
    const Node& node = graph_.node(id);
    touches_.clear();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      XRUN_TRY(take_input(id, i));
    }
    if (kernels_ != nullptr) {
      touches_.push_back({kernels_->buffer, kernels_->offset, kernels_->offset + kernels_->bytes, true});
      slice_[kernels_->buffer].set(kernels_->offset, kernels_->offset + kernels_->bytes, {}, 0);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      XRUN_TRY(take_output(id, i));
    }
    XRUN_TRY(check_apart(touches_));
  }
  touches_.clear();
  if (kernels_ != nullptr) {
    XRUN_TRY(take_scratch(0, true));
  } else if (!slice_.empty()) {
    return at_fault("has values in the slices of workers, and no scratch");
  }
  XRUN_TRY(check_apart(rows_));
  return end();
}

Status SymbolicRun::take_input(NodeId node, size_t input) {
  const ValueId value = graph_.node(node).inputs[input];
  const auto index = static_cast<int32_t>(input);
  Operand wanted{.role = Role::kInput, .access = Access::kRead, .node = node, .index = index};
  if (const ParamId param = graph_.value(value).param; param.valid()) {
    wanted.param = param;
    if (prepared_.contains({node.index, index, one_->replica})) {
      return take_kept(wanted, {.what = What::kKept, .purpose = Purpose::kPrepared, .id = node.index, .last = index});
    }
    const bool trained = graph_.param(param).trained;
    return take_kept(
        wanted,
        {.what = What::kKept, .purpose = trained ? Purpose::kWeight : Purpose::kState, .id = weight_of(param).index});
  }
  const bool local = next_is(Role::kInput) && is_local(one_->operands[at_]);
  wanted.by = local && program_.gpu.empty() ? By::kWorker : By::kBlock;
  XRUN_ASSIGN(const Operand* has, next(wanted));
  return local ? take_local(*has, value) : take_block_rows(*has, value);
}

Status SymbolicRun::take_output(NodeId node, size_t output) {
  const ValueId value = graph_.node(node).outputs[output];
  const By by = next_is(Role::kOutput) ? one_->operands[at_].by : By::kBlock;
  const bool local = next_is(Role::kOutput) && is_local(one_->operands[at_]);
  XRUN_ASSIGN(const Operand* has, next({.role = Role::kOutput,
                                        .access = Access::kWrite,
                                        .by = by == By::kNothing ? By::kBlock : by,
                                        .node = node,
                                        .index = static_cast<int32_t>(output)}));
  return by == By::kPartial ? add_gradient(*has, value)
         : local            ? take_local(*has, value)
                            : take_block_rows(*has, value);
}

// Whether an operand is a value that exists only during the pass: in the slice of a worker or, on a GPU, in scratch
// memory.
bool SymbolicRun::is_local(const Operand& operand) const {
  return program_.gpu.empty() ? operand.by == By::kWorker
                              : program_.buffer(operand.buffer).purpose == Purpose::kScratch;
}

// Takes a value of a row block in the slice of a worker or, on a GPU, the contiguous row blocks of the micro-batch.
Status SymbolicRun::take_local(const Operand& operand, ValueId value) {
  const Buffer& buffer = program_.buffer(operand.buffer);
  const bool all = !program_.gpu.empty();
  const Bytes block = bytes_of(value, program_.norm_rows);
  const Bytes bytes = all ? bytes_of(value, program_.micro_batch_rows()) : block;
  const bool has_rows = type(value).has_batch() || type(value).per_block();
  const Bytes step = !all ? slice_of(buffer.id) : has_rows ? block : 0;
  if (buffer.purpose != Purpose::kScratch || operand.step != step || operand.bytes != block ||
      operand.offset + bytes > slice_of(buffer.id) || operand.offset % kAlignment != 0 ||
      slice_of(buffer.id) % kAlignment != 0) {
    return at_fault("has value `{}` outside of the slices of buffer {} ({})", graph_.value(value).name, buffer.id.index,
                    buffer.name);
  }
  const Bytes end = operand.offset + bytes;
  Contents& slice = slice_[buffer.id];
  touches_.push_back({buffer.id, operand.offset, end, operand.access != Access::kRead});
  if (operand.access == Access::kRead) {
    const auto found = slice.lacks(operand.offset, end, value_of(value), 0);
    return found.has_value() ? lacks(buffer.id, *found, value_of(value)) : Status();
  }
  slice.set(operand.offset, end, value_of(value), 0);
  put(buffer.id, 0, buffer.bytes, {}, 0);  // outside of the pass, slices hold nothing
  return {};
}

// Takes the rows of the micro-batch of a value in a buffer.
Status SymbolicRun::take_block_rows(const Operand& operand, ValueId value) {
  const Buffer& buffer = program_.buffer(operand.buffer);
  const Bytes block = bytes_of(value, program_.norm_rows);
  if (buffer.purpose == Purpose::kScratch || !(type(value).has_batch() || type(value).per_block()) ||
      operand.bytes != block || operand.step != block) {
    return at_fault("has no row blocks of `{}` as its operand {} ({})", graph_.value(value).name, at_ - 1,
                    name_of(operand.role));
  }
  XRUN_TRY(check_aligned(operand, alignment_of(block)));
  const bool reads = operand.access == Access::kRead;
  const Bytes bytes = bytes_of(value, program_.micro_batch_rows());
  const Bytes origin = bytes_of(value, program_.micro_batch_rows() * one_->micro_batch);
  XRUN_TRY(touch(operand, operand.offset, bytes, !reads, value.index));
  rows_.push_back(touches_.back());
  touches_.pop_back();
  if (reads) {
    return need(buffer.id, operand.offset, bytes, value_of(value), origin);
  }
  put(buffer.id, operand.offset, bytes, value_of(value), origin);
  return {};
}

// Adds the row blocks of the micro-batch to their gradient partials. A partial must have all earlier micro-batches of
// the replica that add to it, or zeros if there are none.
Status SymbolicRun::add_gradient(const Operand& operand, ValueId gradient) {
  const auto param = param_of_.find(gradient);
  if (param == param_of_.end() || program_.buffer(operand.buffer).purpose == Purpose::kScratch ||
      operand.bytes != bytes_of(gradient, 0) ||
      operand.step != program_.buffer(operand.buffer).bytes / program_.partials_of_replica()) {
    return at_fault("adds `{}` to no gradient", graph_.value(gradient).name);
  }
  XRUN_TRY(check_aligned(operand, sizeof(float)));
  const int m = one_->micro_batch;
  const int64_t blocks = program_.batch / program_.norm_rows / program_.micro_batches;
  const int64_t first = program_.partial_of(blocks * m);
  const int64_t last = program_.partial_of(blocks * (m + 1) - 1);
  const auto near = [&](int other, int64_t partial) {
    return other >= 0 && other / program_.micro_batches_of_replica() == one_->replica &&
           other < program_.micro_batches && adds(program_, other, partial);
  };
  for (int64_t partial = first; partial <= last; ++partial) {
    if (!adds(program_, m, partial)) {
      continue;
    }
    const Bytes place = operand.offset + (partial - first) * operand.step;
    XRUN_TRY(touch(operand, place, operand.bytes, true, gradient.index));
    rows_.push_back(touches_.back());
    touches_.pop_back();
    Content content{.what = What::kPartial, .id = param->second.index, .first = static_cast<int32_t>(partial)};
    content.pass = m - 1;
    XRUN_TRY(
        need(operand.buffer, place, operand.bytes, near(m - 1, partial) ? content : Content{.what = What::kZero}, 0));
    content.pass = near(m + 1, partial) ? m : -1;
    if (content.pass < 0 && program_.partials_of_replica() == 1) {
      content = sum_of(param->second, one_->replica, one_->replica + 1);
    }
    put(operand.buffer, place, operand.bytes, content, 0);
  }
  return {};
}

}  // namespace xrun::planner
