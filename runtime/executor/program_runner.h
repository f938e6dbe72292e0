// What the instructions of a program do: each bound once to its kernels and operands, then run once a step.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "graph/module.h"
#include "planner/program.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/head_runner.h"
#include "runtime/executor/stage_runner.h"
#include "runtime/executor/update_runner.h"

namespace xrun::runtime {

// Threads: as InstructionRunner; `begin_step` between steps.
class ProgramRunner final : public InstructionRunner {
 public:
  ProgramRunner(const Module& module, const planner::Program& program, const BoundMemory& memory,
                const KernelSet& kernels, ops::Isa isa, const ops::OptimizerForm& form);

  void begin_step(const StepContext& step) { step_ = step; }
  Status run(const planner::Instruction& instruction, ops::Workers& workers) override;
  Status prepare(const planner::Instruction& instruction, Exchange& exchange) override;

  // Makes the prepared weights of a device from the weights as they are, in a task of the device, between steps.
  Status prepare_weights(int device, ops::Workers& workers);
  // Of the last step, before clipping; 0 where the run does not clip by norm.
  double grad_norm() const { return grad_norm_.load(std::memory_order_relaxed); }

 private:
  // An instruction bound to what runs it; none for exchanges.
  using Bound = std::function<Status(ops::Workers& workers)>;
  Bound bind(const planner::Instruction& instruction);
  Bound bind_update(const planner::Instruction& instruction);
  Bound bind_copy(const planner::Instruction& instruction) const;
  // The sums of squares that the clip reads; none where it does not.
  std::span<const double> norms_of(const planner::Instruction& instruction) const;
  // What gradients are multiplied by, from their sums of squares.
  Result<double> grad_scale(std::span<const double> norms);

  const Module& module_;
  const planner::Program& program_;
  const BoundMemory& memory_;
  const KernelSet& kernels_;
  Binder binder_;
  HeadSet heads_;
  StageRunner stage_runner_;
  HeadRunner head_runner_;
  UpdateRunner update_runner_;
  Exchanges exchanges_;
  std::vector<Bound> bound_;  // by instruction
  StepContext step_;
  std::atomic<double> grad_norm_{0};
};

}  // namespace xrun::runtime
