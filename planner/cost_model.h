// Cost model: seconds of kernels, head passes, updates and copies on CPU devices of one process. Kernels take the
// measured time if KernelFacts has one, else the larger of arithmetic and memory time by the operator's formulae.
#pragma once

#include "graph/graph.h"
#include "graph/kernel_facts.h"
#include "graph/knn_layout.h"
#include "graph/module.h"
#include "planner/machine.h"
#include "planner/program.h"

namespace xrun::planner {

// Multiply-adds per (row, class, dim) of each pass of a head (docs/internals/algorithms.md, "Head sweeps"): statistics
// 1; gradients recompute the logits and sum dX, and dW if the update is fused; the update sweep recomputes the logits
// once more for dW.
inline constexpr double kHeadForwardMacs = 1;
inline constexpr double kHeadBackwardMacs = 2;
inline constexpr double kHeadFusedMacs = 3;
inline constexpr double kHeadUpdateMacs = 2;

// The work of a head pass on one device.
struct HeadSweep {
  double rows = 0;
  double classes = 0;  // number of classes in the sweep
  double blocks = 0;   // number of their class blocks
  double dim = 0;
  double macs = kHeadForwardMacs;  // per row, class and dim
  bool bf16 = false;               // products in bf16
  bool apart = false;              // class rows of the sweep are not neighbours in memory
  bool updates = false;            // writes class rows and `states` states of the optimizer
  RowFormat weights = RowFormat::kF32;
  RowFormat state_format = RowFormat::kF32;
  int states = 0;
};

class CostModel {
 public:
  // Both must outlive the model.
  CostModel(const KernelFacts& facts, const Machine& machine);
  CostModel(const KernelFacts& facts, Machine&& machine) = delete;

  // One call of a node on one row block of `norm_rows` rows, by one worker.
  Seconds node(const Graph& graph, NodeId id, int64_t norm_rows) const;

  // Making the prepared form of input `input` of a node, by one worker; 0 if it was not measured.
  Seconds prepare(NodeId id, int input) const;

  // A pass of `blocks` row blocks that take `block` seconds each on a device with `workers` workers: forward blocks are
  // distributed one by one, backward blocks partial by partial, with `partials` partials in the micro-batch.
  Seconds forward_pass(Seconds block, int64_t blocks, int workers) const;
  Seconds backward_pass(Seconds block, int64_t blocks, int64_t partials, int workers) const;

  // A sweep of a head on a device with `workers` workers.
  Seconds head(const HeadSweep& sweep, int workers) const;
  // `macs` multiply-adds of products of a head, by one worker.
  Seconds head_products(double macs, bool bf16) const;
  // Drawing `active` classes of a head for a step, in addition to the `targets` of its rows, by one worker.
  Seconds selection(int64_t active, int64_t targets) const;
  // Selecting the largest `selected` elements of a tensor (ops/top_k.h).
  Seconds select_largest(int64_t elements, int64_t selected, int workers) const;
  // A build of a graph of nearest classes on the cores of the workers of `shape`, without concurrent work; for an
  // approximate graph it includes measuring the recall. If several ranks share a build, `shape` has the workers of one
  // rank; their communication is not counted.
  Seconds exact_graph(const KnnShape& shape, int ranks = 1) const;
  Seconds approximate_graph(const KnnCellsShape& shape, int ranks = 1) const;
  // Elementwise work over `bytes` read and written, such as an update.
  Seconds sweep(Bytes bytes, int workers) const;

  // Copies between devices go through memory that all share.
  Seconds copy(Bytes bytes) const;
  // Collectives over `members`: `bytes` gathered or reduced in all, as seen by one member
  // (docs/internals/algorithms.md, "Collective costs").
  Seconds all_gather(Bytes bytes, int members) const;
  Seconds reduce_scatter(Bytes bytes, int members) const;
  // Handing a task from one thread to another: parking and waking. 0 if one thread does everything.
  Seconds hand_over() const { return machine_.devices == 1 && machine_.threads == 1 ? 0.0 : 5e-6; }

  // The factor by which everything slows down while the first `devices` devices work at once, since more threads than
  // cores share the cores. The times above assume a core for each thread.
  double crowding(int devices) const;

  // Reading and transforming the samples of a step, on one core.
  Seconds loader(const Module& module) const;
  // The duration of a step with the loader on its workers; the program takes `makespan` by itself, keeps workers busy
  // for `work` seconds in all, and leaves one of them waiting `waits` times (docs/internals/algorithms.md, "The
  // loader's share").
  Seconds step_with_loader(const Module& module, Seconds makespan, Seconds work, int waits) const;

  const KernelFacts& facts() const { return facts_; }
  const Machine& machine() const { return machine_; }

 private:
  const KernelFacts& facts_;
  const Machine& machine_;
};

}  // namespace xrun::planner
