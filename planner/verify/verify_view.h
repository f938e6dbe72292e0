// How the verifier looks at the operands of an instruction: the buffers that the executor's binding will find, and the
// rows that they hold (planner/program.h says which).
#pragma once

#include <utility>

#include "planner/verify/verify_parts.h"

namespace xrun::planner {

class OperandView {
 protected:
  OperandView(const Program& program, const Module& module)
      : program_(program), module_(module), graph_(module.graph) {}

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

  bool on_its_device(const Instruction& one) const {
    return one.stage >= 0 && one.replica >= 0 &&
           program_.stages[static_cast<size_t>(one.stage)].devices[static_cast<size_t>(one.replica)] == one.device;
  }

  const Program& program_;
  const Module& module_;
  const Graph& graph_;
};

}  // namespace xrun::planner
