// Runs a Program step by step. There are two executors: the parallel one, and a sequential one, which is the reference
// in tests and also runs programs with a single worker.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "planner/program/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/backend.h"

namespace xrun::runtime {

class ArenaCheck;  // runtime/executor/arena_check.h

// The times of an instruction in the last step, in seconds after the start of the step. An exchange begins when it is
// posted, and ends when it has received all blocks. In between it waits for other members; data of this member are
// transferred between `moving` and `moved`.
struct Timing {
  double begin = 0;
  double end = 0;
  double moving = 0;
  double moved = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs all instructions once. After an error no further instruction begins; the first error is returned when all
  // instructions that had begun have ended. If the backend orders, the error names the instruction that failed.
  // Allocates nothing from the second call on. REQUIRES: the calling thread is not a worker.
  virtual Status step() = 0;
  // Changes the sizes of blocks in the program's exchanges (Communicator::resize). REQUIRES: between steps.
  virtual void resize(std::span<const Exchange> exchanges) = 0;
  // Whether later steps time their instructions; initially true.
  virtual void measure(bool wanted) = 0;
  // The times of the last measured step; index: instruction.
  virtual std::span<const Timing> timings() const = 0;
};

// Makes an executor that runs the instructions of `rank` in parallel. Each instruction counts the events that it still
// waits for, and starts when the count is zero, so no task waits. All arguments outlive the executor. REQUIRES: the
// program is verified.
//   communicator  created for exchanges_of(program, ..., rank)
//   check         checks the memory plan; null: no check. REQUIRES: null for a backend that orders
std::unique_ptr<Executor> make_parallel_executor(const planner::Program& program, Backend& backend,
                                                 Communicator& communicator, ArenaCheck* check = nullptr, int rank = 0);

// Makes an executor that runs one instruction after the other on the calling thread, in an order that this function
// determines. Errors: XG0622 instructions of the program wait for each other.
//   exchanges  the exchanges of all instructions that communicate (runtime/executor/exchanges.h)
Result<std::unique_ptr<Executor>> make_sequential_executor(const planner::Program& program, Backend& backend,
                                                           std::vector<Exchange> exchanges,
                                                           ArenaCheck* check = nullptr);

}  // namespace xrun::runtime
