// Cost model: predicts the seconds that kernels, head passes, updates and copies take on the devices of one process. If
// KernelFacts has a time of a kernel, measured, calibrated or given by the user, the model uses it. Otherwise it uses
// the larger of the kernel's arithmetic time and memory time, by the operator's formulae. On GPUs all work takes this
// larger time and the launches of its kernels.
#pragma once

#include "graph/graph.h"
#include "graph/layouts/kernel_facts.h"
#include "graph/layouts/knn_layout.h"
#include "graph/module.h"
#include "planner/program/machine.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Multiply-adds per (row, class, dim) of each pass of a head (docs/internals/algorithms.md, "Head sweeps"). The forward
// pass computes the logits: 1. The backward pass recomputes the logits and sums dX: 2, or 3 with a fused update, which
// also sums dW. The update sweep recomputes the logits once more and sums dW: 2.
inline constexpr double kHeadForwardMacs = 1;
inline constexpr double kHeadBackwardMacs = 2;
inline constexpr double kHeadFusedMacs = 3;
inline constexpr double kHeadUpdateMacs = 2;

// The work of a head pass on one device.
struct HeadSweep {
  double rows = 0;
  double classes = 0;  // number of classes in the sweep
  double blocks = 0;   // number of class blocks of these classes
  double dim = 0;
  double macs = kHeadForwardMacs;  // multiply-adds per row, class and dim
  bool bf16 = false;               // whether products are in bf16
  bool apart = false;              // class rows of the sweep are not neighbours in memory
  bool updates = false;            // writes class rows and `states` states of the optimizer
  RowFormat weights = RowFormat::kF32;
  RowFormat state_format = RowFormat::kF32;
  int states = 0;

  // Returns the bytes that the sweep reads and writes for each element of the class weights.
  double bytes_of_element() const {
    return static_cast<double>(element_bytes(weights)) * (updates ? 2 : 1) +
           static_cast<double>(element_bytes(state_format)) * (updates ? 2 * states : 0);
  }
};

class CostModel {
 public:
  // `facts` and `machine` must outlive the model.
  CostModel(const KernelFacts& facts, const Machine& machine);
  CostModel(const KernelFacts& facts, Machine&& machine) = delete;

  // Returns the time of one call of a node on one row block of `norm_rows` rows, by one worker.
  Seconds node(const Graph& graph, NodeId id, int64_t norm_rows) const;

  // Returns the time in which one worker makes the prepared form of input `input` of a node; 0 if it was not measured.
  Seconds prepare(NodeId id, int input) const;

  // Return the time of a pass over `blocks` row blocks that take `block` seconds each, on a device with `workers`
  // workers. In a forward pass the workers take one block after the other. In a backward pass a worker takes all blocks
  // of a gradient partial, of which the micro-batch has `partials`.
  Seconds forward_pass(Seconds block, int64_t blocks, int workers) const;
  Seconds backward_pass(Seconds block, int64_t blocks, int64_t partials, int workers) const;

  // Returns the time of a pass that takes `factor` times the time of a row block, in which `calls` kernels run. On GPUs
  // a call spans all row blocks of the pass, so that its launch counts once.
  Seconds pass(Seconds block, double factor, int calls) const;

  // Returns the time of a sweep of a head on a device with `workers` workers.
  Seconds head(const HeadSweep& sweep, int workers) const;
  // Returns the time of `macs` multiply-adds in the matrix products of a head, by one worker.
  Seconds head_products(double macs, bool bf16) const;
  // Returns the time in which one worker draws `active` classes of a head for a step, in addition to the `targets`
  // classes that are labels of its rows.
  Seconds selection(int64_t active, int64_t targets) const;
  // Returns the time to select the `selected` largest elements of a tensor (ops/reduce/top_k.h).
  Seconds select_largest(int64_t elements, int64_t selected, int workers) const;
  // Return the time to build a graph of nearest classes on the cores of the workers of `shape`, without concurrent
  // work. The time for an approximate graph includes measuring its recall. If several ranks share a build, `shape` has
  // the workers of one rank; the communication between the ranks is not counted.
  Seconds exact_graph(const KnnShape& shape, int ranks = 1) const;
  Seconds approximate_graph(const KnnCellsShape& shape, int ranks = 1) const;
  // Return the time of elementwise work, such as an update, that reads and writes `bytes` in all: while no other worker
  // of the node streams through memory, and while all of them do. The second time equals the first one if nobody has
  // measured how many workers fill the memory. Instructions that stream (planner/cost/memory_sharing.h) take the first
  // time, since the simulator adds what they share.
  Seconds streaming(Bytes bytes, int workers) const;
  Seconds sweep(Bytes bytes, int workers) const;

  // Returns the bytes that devices of a node exchange in a second: through memory that they share, or over the link
  // between two GPUs.
  double exchange_rate() const { return machine_.has_gpus() ? machine_.device_link : facts_.bytes_per_second; }
  // Return the time to copy `bytes` between devices of a node, and from the host to a GPU.
  Seconds copy(Bytes bytes) const;
  Seconds copy_from_host(Bytes bytes) const;
  // Return the time of a collective over `members` members. `bytes` is the total that one member gathers or reduces
  // (docs/internals/algorithms.md, "Collective costs").
  Seconds all_gather(Bytes bytes, int members) const;
  Seconds reduce_scatter(Bytes bytes, int members) const;
  // Returns the time to hand a task from one thread to another, which parks one thread and wakes the other; 0 if there
  // is only one thread. A GPU needs the time of a launch.
  Seconds hand_over() const;

  // Returns the factor by which all work slows down while the first `devices` devices work at once, if there are more
  // threads than cores. The times above assume a core for each thread.
  double crowding(int devices) const;

  // Returns the time to read and transform the samples of a step on one core: the measured time of a sample, or a
  // formula, in which pictures have twice the height and the width to which they are decoded.
  Seconds loader(const Module& module) const;
  // Returns the time in which the loader fills the batch of a step if it has all cores that it may use: those of the
  // workers, or with GPUs all cores of the hosts.
  Seconds loader_alone(const Module& module) const;
  // Returns the duration of a step whose workers also run the loader; steps of GPUs wait only for its samples. Without
  // the loader the program takes `makespan`, keeps cores busy for `busy` seconds in total (ProgramTimes::busy), and
  // lets a worker wait `waits` times (docs/internals/algorithms.md, "The loader's share").
  Seconds step_with_loader(const Module& module, Seconds makespan, Seconds busy, int waits) const;

  const KernelFacts& facts() const { return facts_; }
  const Machine& machine() const { return machine_; }

 private:
  Seconds head_on_gpu(const HeadSweep& sweep) const;
  Seconds exchange(const ExchangeTime& measured, Bytes bytes, int others) const;

  const KernelFacts& facts_;
  const Machine& machine_;
};

}  // namespace xrun::planner
