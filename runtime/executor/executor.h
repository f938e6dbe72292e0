// Runs a Program, step by step. Two executors read the same program: the parallel one, and the sequential one, which is
// its oracle and also runs what has only one worker.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "planner/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/backend.h"

namespace xrun::runtime {

class ArenaCheck;  // runtime/executor/arena_check.h

// When an instruction ran in the last step, in seconds after the start of the step. An exchange begins when it is
// posted and ends when it has received; in between it waits for the others, and data of its member are moved from
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
  // Whether the steps that follow take the times of their instructions; they do at first.
  virtual void measure(bool wanted) = 0;
  // By instruction, of the last step that was measured.
  virtual std::span<const Timing> timings() const = 0;
};

// An instruction starts when all that it waits for has come about, which a counter an instruction counts; no task
// waits. Instructions of other ranks than `rank` are left out. All outlive the executor. REQUIRES: verified program.
//   communicator  made for exchanges_of(program, ..., rank)
//   check         watches the memory plan where it is given
std::unique_ptr<Executor> make_parallel_executor(const planner::Program& program, Backend& backend,
                                                 Communicator& communicator, ArenaCheck* check = nullptr, int rank = 0);

// One instruction after the other on the calling thread, in an order fixed beforehand. Errors: XG0622, a program whose
// instructions wait for each other.
//   exchanges  of all instructions that communicate (runtime/executor/exchanges.h)
Result<std::unique_ptr<Executor>> make_sequential_executor(const planner::Program& program, Backend& backend,
                                                           std::vector<Exchange> exchanges,
                                                           ArenaCheck* check = nullptr);

}  // namespace xrun::runtime
