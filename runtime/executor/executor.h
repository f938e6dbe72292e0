// Runs a Program, step by step. Two executors read the same program: the parallel one, and the sequential one, which is
// its oracle and also runs what has only one worker.
#pragma once

#include <memory>
#include <vector>

#include "graph/base/result.h"
#include "planner/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

class ArenaCheck;  // runtime/executor/arena_check.h

// What instructions mean. Called by executors from tasks of the instruction's device; two calls never run at once for
// the same stream of a device, and dependencies are kept.
class InstructionRunner {
 public:
  virtual ~InstructionRunner() = default;
  // Does a run, copy, free or update.
  virtual Status run(const planner::Instruction& instruction, ops::Workers& workers) = 0;
  // What a communication gives and takes. Kind, group, member, members and device are filled by the executor.
  virtual Status prepare(const planner::Instruction& instruction, Exchange& exchange) = 0;
};

// When an instruction ran in the last step, in seconds after the start of the step. A communication begins when it is
// posted and ends when all its members are through; in between it waits for the others, and moves its own data from
// `moving` to `moved`.
struct Timing {
  double begin = 0;
  double end = 0;
  double moving = 0;
  double moved = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs all instructions once. The first error wins and is given back after everything under way has ended; what had
  // not begun is not run. Allocates nothing from the second call on. Called from a thread that is no worker.
  virtual Status step() = 0;
  // By instruction, of the last step.
  virtual std::span<const Timing> timings() const = 0;
};

// Tasks on the arenas of `devices`: a counter an instruction, run at zero; no task waits. All outlive the executor.
// REQUIRES: verified program.
//   communicator  knows the groups of the program (group_sizes)
//   check         watches the memory plan where it is given
std::unique_ptr<Executor> make_parallel_executor(const planner::Program& program, InstructionRunner& runner,
                                                 const DeviceSet& devices, Communicator& communicator,
                                                 ArenaCheck* check = nullptr);

// One instruction after the other on the calling thread, in an order fixed beforehand; work is not shared out. Errors:
// XG0622, a program whose instructions wait for each other.
Result<std::unique_ptr<Executor>> make_sequential_executor(const planner::Program& program, InstructionRunner& runner,
                                                           ArenaCheck* check = nullptr);

// The members of each group of communications, by group number: instructions in member order (senders first).
std::vector<std::vector<planner::InstructionId>> groups_of(const planner::Program& program);
// How many members each group has; 0: the number is not used.
std::vector<int> group_sizes(const planner::Program& program);

}  // namespace xrun::runtime
