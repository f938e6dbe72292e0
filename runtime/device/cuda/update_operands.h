// The operands of instructions at the end of a step, as addresses for launches of a GPU.
#pragma once

#include <array>
#include <vector>

#include "graph/module.h"
#include "ops/optimizer/optimizer.h"
#include "planner/program/program.h"
#include "runtime/device/binding.h"
#include "runtime/device/cuda/driver/driver_types.h"
#include "runtime/device/tensor_update.h"

namespace xrun::cuda {

// A trained tensor of one replica that does not belong to a head.
struct UpdateTensor {
  ParamId param;
  int64_t elements = 0;
  int64_t row = 0;  // numbers in a row, if rows with a gradient of zero are not updated; else 0
  CUdeviceptr weight = 0;
  std::array<CUdeviceptr, ops::kMostKeptStates> states{};
  CUdeviceptr gradient = 0;  // first gradient partial of the replica
  Bytes partial = 0;         // bytes from one partial to the next
  CUdeviceptr norms = 0;     // sums of squares of the gradient, for clipping
  runtime::TensorUpdate rule;
};

// A weight in the form that a kernel wants, and the plain weight from which it is computed.
struct UpdatePrepare {
  NodeId node;
  int input = 0;
  CUdeviceptr plain = 0;
  CUdeviceptr prepared = 0;
};

// A node whose running statistics are combined. Operands that the instruction does not have are 0.
struct UpdateFold {
  NodeId node;
  std::vector<uint64_t> inputs;
  std::vector<uint64_t> outputs;
};

// Operands of a kUpdate, kFoldPartials or kNorm.
struct UpdateOperands {
  std::vector<UpdateTensor> tensors;
  std::vector<UpdatePrepare> prepares;
  std::vector<UpdateFold> folds;
};
UpdateOperands update_operands(const Module& module, const runtime::Binder& binder, const ops::OptimizerForm& form,
                               const planner::Instruction& instruction);

// A sum of a kSumReplicas or kSumTied: `terms` are in the order of replicas or reading nodes and contain `sum`.
struct TermSum {
  std::vector<CUdeviceptr> terms;
  CUdeviceptr sum = 0;
  int64_t elements = 0;
};
std::vector<TermSum> term_sums(const runtime::Binder& binder, const planner::Instruction& instruction);

}  // namespace xrun::cuda
