// A session is a program that is ready to run, with its kernels, its memory and an executor. One session trains;
// another one runs the inference program of the plan to evaluate and predict.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/module.h"
#include "ops/head/head.h"
#include "ops/simd/isa.h"
#include "planner/program/program.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/peers.h"
#include "runtime/device/backend.h"
#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/step_times.h"
#include "runtime/train/events/events.h"
#include "runtime/train/session/batch_source.h"
#include "runtime/train/state/train_state.h"

namespace xrun::runtime {

struct SessionOptions {
  ops::Isa isa = ops::Isa::kAvx2;
  bool sequential = false;  // reference mode: runs one instruction after the other on the calling thread
  // Checks each planned buffer at its first and last access (runtime/executor/arena_check.h); for tests.
  // REQUIRES: false for devices whose backend orders.
  bool check_memory = false;
  // In a run of several processes: the rank of this process, and a function that makes its communicator. Without the
  // function this process has all devices of the program.
  int rank = 0;
  std::function<std::unique_ptr<Communicator>(std::span<const Exchange> exchanges)> communicator;
  Peers* peers = nullptr;       // sends texts and errors between the ranks; outlives the session
  std::vector<int> rank_nodes;  // the host of each rank, counted from 0; empty: one host
};

// Threads: one calls it; steps run on the workers of the devices.
class Session {
 public:
  // Makes `program` ready to run. `module` is prepared (graph/passes/pipeline.h); `module`, `program` and `devices`
  // outlive the session. `devices` has the number of devices and workers that the program asks for. Weights are zero
  // until they are initialised or copied. Errors: kWorld (memory), kContent (a plan for another machine, an operator
  // without a kernel).
  //   before  a session that must not run again: the new session takes over its memory with all contents. Its program
  //           has the same arenas, with weights and states in the same places (Plan::smaller). Null: maps new memory
  static Result<std::unique_ptr<Session>> create(const Module& module, const planner::Program& program,
                                                 const DeviceSet& devices, const SessionOptions& options,
                                                 Session* before = nullptr);
  virtual ~Session() = default;

  virtual TrainState& state() = 0;
  // The mapped memory of the program.
  virtual const BoundMemory& bound() const = 0;
  // Call after other code has written weights: prepares them for the kernels.
  virtual Status weights_changed() = 0;

  // The ring of slots in host memory that a BatchSource or RowSource fills: one view for each slot.
  virtual std::span<const BatchView> ring() const = 0;

  // Sets the learning rate of every step. With Untouched::kExact, class rows that were idle in some steps catch up
  // later: they get the values that updates in all these steps would give, which needs the rates of these steps.
  // `done`: the number of steps done. REQUIRES: called before the first step, and before such rows are read.
  virtual void follow(std::function<double(int64_t step)> rate, int64_t done) = 0;

  // Sets the density of compressed gradients in every step. Without this call all steps use the density after the
  // warm-up. REQUIRES: called before the first step, and only if the run compresses gradients.
  virtual void compress_by(std::function<double(int64_t step)> density) = 0;

  // Runs step `step` (counted from 0) on the batch in slot `slot` of the ring, with the learning rate `rate`. `stop`:
  // whether this process was asked to stop; read after all instructions have ended. Errors: kNonFinite with the
  // operator and the rows; those of kernels; with several ranks, the error of any rank.
  virtual Status step(int64_t step, double rate, int slot, const std::atomic<bool>* stop = nullptr) = 0;
  // Sets the guard that is called before each instruction changes a tensor, from the next step on; null removes it.
  virtual void guard(ChangeGuard* guard) = 0;
  // Whether any rank had been asked to stop when the last step ended; if so, all ranks end the run.
  virtual bool stops() const = 0;

  // The rank of this process, the communicator between devices, and the connection between ranks for texts.
  // `communicator` is null with the sequential executor, and `peers` is null if there is one process.
  virtual int rank() const = 0;
  virtual Communicator* communicator() = 0;
  virtual Peers* peers() = 0;
  // Collective: returns the error of any rank, or OK if all ranks pass OK. So no rank begins work that another rank
  // cannot do.
  virtual Status agree(Status mine) = 0;
  // With several ranks: from now on every step ends with an exchange, after which all ranks have the rows of these
  // values and the selections of heads.
  virtual void share(std::span<const ValueId> values) = 0;
  // Collective: returns the digest of the weights of all ranks.
  virtual Result<std::string> weights_digest() const = 0;

  // The address of a buffer in the host arena. REQUIRES: the caller does not write to the buffer while a step reads it.
  virtual std::byte* host_memory(planner::BufferId buffer) = 0;

  // Copies the value of each row in the last step (loss, metric, output) to `out`: all rows of the batch, in order.
  // REQUIRES: with several ranks, the value was passed to `share`. Errors: the program does not keep the value.
  virtual Status read_rows(ValueId value, std::span<std::byte> out) const = 0;
  virtual bool has_rows(ValueId value) const = 0;
  // Reads the best classes of each row and their logits, [batch, HeadPlan::top_k]; only in inference programs with a
  // sharded head.
  virtual Status read_best(ValueId logits, std::span<int32_t> classes, std::span<float> scores) const = 0;
  // Reads the softmax statistics {max, 1 / sum} of each row, [batch], over all classes of head `head`
  // (ops/head/head.h); the terms of the sum are exp(scale · logit). Inference programs only.
  virtual Status read_softmax(int head, std::span<ops::RowSoftmax> rows) const = 0;
  // The norm of all gradients before clipping in the last step; 0 if the run does not clip by norm.
  virtual double grad_norm() const = 0;

  // Whether later steps are timed; initially false.
  virtual void measure(bool on) = 0;
  virtual DeviceRange own_devices() const = 0;
  // The times of the last step on the devices of this process, valid until the next call. REQUIRES: the step was timed.
  virtual const StepTimes& times() = 0;
  virtual std::span<const Timing> timings() const = 0;
  // Whether the next steps measure the softmax share of the active classes; initially false.
  virtual void measure_mass(bool on) = 0;
  // The active classes of head `head` of the program in the last step; `mass` is NaN if it was not measured.
  virtual ActiveReport active(int head) const = 0;
  virtual Bytes memory() const = 0;  // size of all arenas
  // The peak memory of the process before the session's arenas were mapped.
  virtual Bytes peak_before() const = 0;
  virtual const planner::Program& program() const = 0;
  virtual const Module& module() const = 0;
};

// Reports once per run why the user's own functions and updates are interpreted, if the compiler could not be used
// (ops/jit/compiler.h).
void warn_if_interpreted(EventSink& events);

}  // namespace xrun::runtime
