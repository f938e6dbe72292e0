// A program on devices of one kind: its instructions bound to kernels and operands. The executor decides when an
// instruction starts; the backend knows what it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/result.h"
#include "ops/isa.h"
#include "planner/program.h"

namespace xrun::ops {
class IdleSteps;  // ops/head/catch_up.h
}

namespace xrun::runtime {

class MappedRows;  // runtime/device/mapped_rows.h

struct BackendOptions {
  ops::Isa isa = ops::Isa::kAvx2;
};

// What is different from step to step.
struct StepContext {
  uint64_t seed = 0;
  int64_t step = 0;                      // counted from 0
  double rate = 0;                       // of the curve
  const ops::IdleSteps* idle = nullptr;  // of rows that catch up
  bool measures_mass = false;            // of the active classes in the softmax (ops/head/mass.h)
  std::span<MappedRows* const> rows;     // by head of the program: its class rows in a file; null: in memory
  std::span<std::byte* const> inputs;    // by index in Graph::inputs: the step's position of the loader's ring
};

// Who is told how far an instruction is. Threads: any, one call at a time for one instruction.
class InstructionEvents {
 public:
  virtual ~InstructionEvents() = default;
  // Before the instruction touches anything. False: it is to be left out, and ends at once.
  virtual bool begins(const planner::Instruction& instruction) = 0;
  virtual void ended(const planner::Instruction& instruction, Status status) = 0;
};

// Threads: `start` from any; the others between steps, from the thread that runs steps.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual void begin_step(const StepContext& step) = 0;
  // Hands an instruction that computes to its device, behind all of its stream that were started before; they may still
  // run. `events` outlives it. Never blocks.
  virtual void start(const planner::Instruction& instruction, InstructionEvents& events) = 0;
  // Runs an instruction that computes on the calling thread, to its end.
  virtual Status run(const planner::Instruction& instruction) = 0;
  // After weights were written from outside: makes their prepared forms, as tasks of the devices.
  virtual Status prepare_weights() = 0;
  // Of the last step, before clipping; 0 where the run does not clip by norm.
  virtual double grad_norm() const = 0;
};

}  // namespace xrun::runtime
