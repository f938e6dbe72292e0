// A backend is a program bound to devices of one kind: it has the kernels and the operands of each instruction. The
// executor decides when an instruction starts, and the backend runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/result.h"
#include "ops/simd/isa.h"
#include "ops/workers.h"
#include "planner/program/program.h"

namespace xrun::ops {
class IdleSteps;  // ops/head/catch_up.h
}

namespace xrun::runtime {

class MappedRows;  // runtime/device/mapped_rows.h

// Called for each instruction before it changes weights, running statistics or optimizer states, so that their old
// values can still be read. A backend that orders (Backend::orders) calls it before it queues the instruction; all
// instructions of earlier steps have ended then, so the values that are read are those of the last step. Threads: any.
class ChangeGuard {
 public:
  virtual ~ChangeGuard() = default;
  // Returns once the values that the instruction will change have been read. May use `workers`: those of the device in
  // the task of an instruction, otherwise the calling thread.
  virtual void before(const planner::Instruction& instruction, ops::Workers& workers) = 0;
  // Like `before`, for an instruction that changes only these rows, in ascending order, of the tensors of a head.
  // REQUIRES: `rows` are in memory of the host.
  virtual void before_rows(const planner::Instruction& instruction, std::span<const int32_t> rows,
                           ops::Workers& workers) = 0;
};

struct BackendOptions {
  ops::Isa isa = ops::Isa::kAvx2;
};

// The values that change from step to step.
struct StepContext {
  uint64_t seed = 0;
  int64_t step = 0;                      // number of the step, counted from 0
  int64_t skipped = 0;                   // number of earlier steps that made no update
  double rate = 0;                       // learning rate of the step
  double loss_scale = 1;                 // factor on all gradients except those of class rows of heads
  double density = 1;                    // density of compressed gradients (graph/layouts/compression.h)
  const ops::IdleSteps* idle = nullptr;  // for class rows that catch up; null: no rows catch up
  // The number of updates that earlier steps have made.
  int64_t updates() const { return step - skipped; }
  bool measures_mass = false;         // measure the softmax share of the active classes (ops/head/mass.h)
  ChangeGuard* guard = nullptr;       // null: instructions change the state without calling a guard
  std::span<MappedRows* const> rows;  // class rows in files; index: head of the program; null entry: in memory
  std::span<std::byte* const>
      inputs;  // addresses of the inputs of this step's batch for instructions; index: that of Graph::inputs
};

// Receives the begin and end of each instruction. Threads: any; one call at a time for each instruction.
class InstructionEvents {
 public:
  virtual ~InstructionEvents() = default;
  // Called before the instruction accesses memory and, by a backend that orders, before it is queued. If it returns
  // false, the instruction is not run and ends at once.
  virtual bool begins(const planner::Instruction& instruction) = 0;
  // Called after `begins` by a backend that orders, once for each instruction, also for one that is not run: the device
  // runs instructions that are queued from now on after this one.
  virtual void queued(const planner::Instruction& instruction) = 0;
  // Called before `ended` by a device that has measured how long it ran the instruction (Backend::measure).
  virtual void ran(const planner::Instruction& /*instruction*/, Seconds /*time*/) {}
  // Called after the last access of the instruction, and after `queued`. A device may report an error to all later
  // instructions too: a backend that orders calls this for the instructions of a device in the order in which they run,
  // so the first error belongs to the instruction that failed.
  virtual void ended(const planner::Instruction& instruction, Status status) = 0;
};

// Runs the instructions of a program. Threads: any calls `start`; the thread that runs steps calls the other functions,
// between steps.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual void begin_step(const StepContext& step) = 0;
  // Whether the devices order instructions themselves: those of a device run in the order in which they were queued.
  // Such a backend also calls InstructionEvents::queued, after which instructions of the device that depend on the
  // instruction may be started before it has ended.
  virtual bool orders() const { return false; }
  // Whether devices with clocks of their own measure the instructions of later steps; initially false. Other backends
  // ignore it: the times at which instructions begin and end are those of the host.
  virtual void measure(bool /*wanted*/) {}
  // Queues an instruction on its device; it runs after all instructions of its stream that were started before. Never
  // blocks. `events` outlives the instruction. REQUIRES: the instruction computes, and is not an exchange.
  virtual void start(const planner::Instruction& instruction, InstructionEvents& events) = 0;
  // Runs an instruction on the calling thread, to its end. REQUIRES: it computes.
  virtual Status run(const planner::Instruction& instruction) = 0;
  // Call when all instructions of a step have ended without an error. Returns the errors that kernels have noted in
  // memory of their devices in this step, such as a value that is not finite. The results below are those of the step
  // from then on.
  virtual Status end_step() { return {}; }
  // Call after other code has written weights: prepares them for the kernels again, in tasks of the devices.
  virtual Status prepare_weights() = 0;
  // The norm of all gradients of the last step before clipping; 0 if the run does not clip by norm.
  virtual double grad_norm() const = 0;
  // Whether an instruction of this process has skipped its update in the last step, because a scaled gradient was not
  // finite.
  virtual bool skipped() const { return false; }
};

}  // namespace xrun::runtime
