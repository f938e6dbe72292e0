// GpuKernel: the counterpart of Kernel (ops/op.h) for GPUs. It does not compute, but lists the launches that compute an
// operator over all row blocks of a call. Lists are plain data without types of CUDA; a device turns them into calls of
// its driver (docs/internals/gpu_kernels.md, "Launches of operators").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/gpu/launch/gpu_launch.h"
#include "ops/jit/gpu_loop.h"
#include "ops/kernel_spec.h"

namespace xrun::ops::gpu {

// The types and sizes for which a kernel is made.
struct GpuSpec {
  const OpDef* op = nullptr;
  KernelSpec
      node;  // describes one row block; `isa` has no meaning. Without `compile`, texts of compiled loops are empty
  GpuTarget target = GpuTarget::kSm80;
  int64_t most_blocks = 1;  // the largest number of row blocks of one call

  int64_t rows(int64_t blocks) const { return node.rows * blocks; }
  // Number of elements of a tensor of this type in `blocks` row blocks.
  int64_t elements(const TensorType& type, int64_t blocks) const { return type.elements(rows(blocks), node.rows); }
  // Size of working memory with `bytes` bytes for each row block of a call.
  Bytes for_blocks(Bytes bytes) const { return most_blocks * align_up(bytes, 256); }
};

// The memory of an operand in a call: values with a batch have the rows of all row blocks one after another, and values
// with an entry for each row block have all entries. All other operands are whole tensors.
class GpuKernel {
 public:
  virtual ~GpuKernel() = default;

  // Returns the launches that compute `blocks` row blocks, to be executed in this order. An operator that reduces over
  // samples adds to its accumulators, one row block after the other in ascending order, so the bits are those of a call
  // for each row block. The texts of the launches are valid while the kernel exists. REQUIRES: 1 <= blocks <=
  // GpuSpec::most_blocks.
  virtual std::vector<GpuLaunch> launches(int64_t blocks) const = 0;
  // Size of the working memory of a call, aligned to 256. It grows by equal amounts with GpuSpec::most_blocks, since a
  // plan adds up the amounts (KernelFact::block_scratch).
  virtual Bytes scratch_bytes() const { return 0; }

  // For kernels that use a weight in another form, with the meaning of Kernel::prepared_bytes and Kernel::prepare:
  // input 0 of the launches is the plain weight, and output 0 the prepared form.
  virtual Bytes prepared_bytes(int /*input*/) const { return 0; }
  virtual std::vector<GpuLaunch> prepare(int /*input*/) const { return {}; }

  // For operators with `folds_states`: launches with the meaning of Kernel::fold_states. Inputs and outputs are those
  // of the node, and outputs have the values of all `blocks` row blocks of the global batch. They change nothing if the
  // flag word is not 0.
  virtual std::vector<GpuLaunch> fold_states(int64_t /*blocks*/) const { return {}; }
};

// Names of the operators that have launches, in alphabetical order. A call of one of them may still be refused by
// make_gpu_kernel, for a type or an argument.
std::vector<std::string_view> gpu_operators();
bool has_gpu_kernel(std::string_view op);

// Makes the kernel of an operator. Errors: XG0824, without a place in the model: the operator, a type or an argument
// has no kernel of a GPU, or a loop cannot be compiled.
Result<std::unique_ptr<GpuKernel>> make_gpu_kernel(const GpuSpec& spec);

struct GpuOptions {
  KernelOptions kernel;
  GpuTarget target = GpuTarget::kSm80;
  int64_t most_blocks = 1;
};

// Makes the kernel of a node. Errors are those above, with the node's span.
Result<std::unique_ptr<GpuKernel>> make_gpu_kernel(const Graph& graph, const Node& node, const GpuOptions& options);

}  // namespace xrun::ops::gpu
