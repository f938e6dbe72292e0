// A program made ready to run: kernels, memory, bindings, an executor. One session trains, another one, of the plan's
// inference program, evaluates and predicts.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/module.h"
#include "ops/head.h"
#include "ops/isa.h"
#include "planner/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/peers.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/step_times.h"
#include "runtime/train/batch_source.h"
#include "runtime/train/events.h"
#include "runtime/train/train_state.h"

namespace xrun::runtime {

struct SessionOptions {
  ops::Isa isa = ops::Isa::kAvx2;
  bool sequential = false;  // the oracle: one instruction after the other on the calling thread
  // Watches the first and last touch of every planned buffer (runtime/executor/arena_check.h): for tests.
  bool check_memory = false;
  // Of a run of several processes: which one this is, and what makes its communicator. Without it all devices of the
  // program are of this process.
  int rank = 0;
  std::function<std::unique_ptr<Communicator>(std::span<const Exchange> exchanges)> communicator;
  Peers* peers = nullptr;  // and what its ranks tell one another by; outlives the session
};

// Threads: one, between which steps run on the devices' own.
class Session {
 public:
  // `module` is prepared (graph/pipeline.h) and outlives the session, as do `program` and `devices`, which has as many
  // devices with as many workers as the program asks for. Weights are zero until initialised or copied.
  // Errors: kWorld (memory), kContent (a plan of another machine, an operator without a kernel).
  static Result<std::unique_ptr<Session>> create(const Module& module, const planner::Program& program,
                                                 const DeviceSet& devices, const SessionOptions& options);
  virtual ~Session() = default;

  virtual TrainState& state() = 0;
  // After weights were written from outside: prepares them for the kernels.
  virtual Status weights_changed() = 0;

  // The host slots of inputs and labels, one view a ring position.
  virtual std::span<const BatchView> ring() const = 0;

  // The rate of every step, for rows that follow training of all classes (Untouched::kExact), of which `done` are done.
  // REQUIRES: before the first step and the first reader of such rows.
  virtual void follow(std::function<double(int64_t step)> rate, int64_t done) = 0;

  // Runs step `step` (from 0) on the batch in ring position `slot`; `rate` is the curve's. `stop`, looked at
  // when the instructions have ended: this process was asked to stop. Errors: kNonFinite with the operator and the
  // rows; those of kernels; of several ranks, that of any of them.
  virtual Status step(int64_t step, double rate, int slot, const std::atomic<bool>* stop = nullptr) = 0;
  // Whether any rank was asked to stop when the last step ended: all of them end the run with it.
  virtual bool stops() const = 0;

  // Of a run of several processes: which one this is, and what connects them; null where one process needs none.
  virtual int rank() const = 0;
  virtual Communicator* communicator() = 0;
  // Of several ranks, which all call it: the first error of any, in place of the own status. So no rank begins what
  // another one cannot.
  virtual Status agree(Status mine) = 0;
  // Of several ranks: each of these per-row values is brought to all ranks at the end of every step that follows, and
  // so is what heads selected.
  virtual void share(std::span<const ValueId> values) = 0;
  // Of the weights of all ranks, which all call it.
  virtual Result<std::string> weights_digest() const = 0;

  // A buffer of the host's arena. REQUIRES: no step runs that reads what is written there.
  virtual std::byte* host_memory(planner::BufferId buffer) = 0;

  // Rows of a per-row value of the last step (loss, metric, output), in batch order: bytes of all rows of the batch.
  // Of several ranks: of a value that they share. Errors: the program keeps no such result.
  virtual Status read_rows(ValueId value, std::span<std::byte> out) const = 0;
  virtual bool has_rows(ValueId value) const = 0;
  // The best classes of each row and their logits, [batch, HeadPlan::top_k]: inference programs with a sharded head.
  virtual Status read_best(ValueId logits, std::span<int32_t> classes, std::span<float> scores) const = 0;
  // {max, 1 / sum} of each row's exp(scale · logits) over all classes of head `head` (ops/head.h), [batch]: of an
  // inference program.
  virtual Status read_softmax(int head, std::span<ops::RowSoftmax> rows) const = 0;
  // The norm of all gradients before clipping in the last step; 0 where the run does not clip by norm.
  virtual double grad_norm() const = 0;

  // Whether the steps that follow are timed; at first they are not.
  virtual void measure(bool on) = 0;
  // Of the last step; until the next call. REQUIRES: it was timed.
  virtual const StepTimes& times() = 0;
  virtual std::span<const Timing> timings() const = 0;
  // Whether the next steps measure what share of the softmax the active classes have; at first they do not.
  virtual void measure_mass(bool on) = 0;
  // Of the last step: what head `head` of the program selected, and that share, where it was measured (else NaN).
  virtual ActiveReport active(int head) const = 0;
  virtual Bytes memory() const = 0;  // of all arenas
  // The most that the process had held before these were mapped.
  virtual Bytes peak_before() const = 0;
  virtual const planner::Program& program() const = 0;
  virtual const Module& module() const = 0;
};

}  // namespace xrun::runtime
