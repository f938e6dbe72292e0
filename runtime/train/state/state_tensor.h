// The tensors that training changes, by name: weights, running statistics and optimizer states, each with the buffers
// of a program that contain its rows.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program/program.h"
#include "runtime/device/bound_memory.h"

namespace xrun::runtime {

// Rows [row_begin, row_end) of a tensor, and the buffers that contain them: one copy for each replica. A tensor of a
// head has a piece for each shard. Other tensors are one piece, except the residuals of compressed gradients
// (kResidual), which have a row for each sender; a sender is a replica or a node (CompressSpec::per_node).
struct TensorPiece {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  std::vector<planner::BufferId> copies;
};

struct StateTensor {
  enum class Role { kWeight, kState, kOptimizer, kScale, kGraph, kShift, kResidual };
  std::string name;  // "layer1.conv.weight", "layer1.conv.weight.velocity", "id.weight.scale"
  Role role = Role::kWeight;
  TensorType type;  // the layout in memory, without a batch dimension; f32 except class weights and their states
  bool trained = true;
  double first_value = 0;  // for an optimizer state: its initial value
  // For a graph of nearest classes: whether the run needs it to continue; if not, checkpoints do not contain it.
  bool kept = true;
  // Whether this process is the first of the ranks that have the tensor; only the first one saves it. A row of a head
  // is on one rank only.
  bool first = true;
  std::string head;  // name of the sharded head that the tensor belongs to; empty: it belongs to no head
  ParamId param;
  std::vector<TensorPiece> pieces;  // in row order; without gaps if the process has all devices

  // Rows are along the first dimension, which for kResidual is the sender; a scalar has one row.
  int64_t rows() const { return type.dims.empty() ? 1 : type.dims[0]; }
  int64_t row_elements() const { return rows() == 0 ? 0 : type.elements(0, 0) / rows(); }
  Bytes row_bytes() const { return row_elements() * size_of(type.dtype); }
};

// The format of a tensor's rows: f32, bf16 or fp8.
RowFormat format_of(const StateTensor& tensor);
// The running mean of a weight, without pieces.
StateTensor mean_of(const StateTensor& weight);
// The scales of class weights in fp8, without pieces.
StateTensor scales_of(const StateTensor& weight);
// The shifts of class rows that catch up (Session::follow): f32 [rows], computed when they are read. The current value
// of a row is the stored row minus its velocity times its shift. A checkpoint contains the shifts, so it can be read
// without the learning rates of its run.
StateTensor shifts_of(const StateTensor& weight);

// The tensors of `program` in the order of their names, with the pieces in `memory`: all pieces if there is one rank.
std::vector<StateTensor> state_tensors(const Module& module, const planner::Program& program,
                                       const BoundMemory& memory);

// The head that a parameter belongs to; null for parameters outside heads.
const planner::HeadPlan* head_with(const planner::Program& program, ParamId param);
// The class rows of a shard, or all rows if the parameter belongs to no head.
ClassRange shard_rows(const planner::HeadPlan* head, int shard, int64_t all);

}  // namespace xrun::runtime
