// Op: an operator, which consists of its meaning (OpDef) and a function that makes its CPU kernel.
// docs/internals/adding_an_op.md explains how to add an operator.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/op_def.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

// The memory of one operand for one row block, in the layout of the operand's type (graph/types/tensor_type.h).
struct TensorView {
  std::byte* data = nullptr;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// The types and sizes for which a kernel is made. Every call has exactly these types and `rows` rows
// (docs/internals/determinism.md, "Row blocks"), so a kernel is made once per spec and may hold compiled primitives.
struct KernelSpec {
  std::vector<TensorType> inputs;  // the node's inputs, parameters included
  std::vector<TensorType> outputs;
  Attrs attrs;
  int64_t rows = 0;  // rows of a row block, g
  bool training = true;
  bool deterministic = false;
  Isa isa = Isa::kAvx2;  // the best instruction set that the kernel may use
  std::string path;      // path of the node: the key of its random numbers
  bool compile = false;  // compile element-wise loops (ops/jit/compiler.h); set for kernels that run, not for facts
};

inline constexpr int kAllPhases = -1;

// One call of a kernel, on one row block.
struct KernelCall {
  std::span<const TensorView> inputs;   // a weight is in prepared form if prepared_bytes(i) > 0
  std::span<const TensorView> outputs;  // for a kReduces operator: the accumulator, to which the call adds
  std::byte* scratch = nullptr;         // working memory of scratch_bytes(), aligned to 64
  uint64_t seed = 0;
  int64_t step = 0;
  float loss_scale = 1;   // factor on the gradient with which differentiation starts
  int64_t first_row = 0;  // position of the block's first row in the global batch
  // The part of a call that is divided into parts (Kernel::parts). A call that is not divided is one part with all
  // phases.
  int64_t part = 0;
  int64_t parts = 1;
  int phase = kAllPhases;
  std::byte* shared = nullptr;  // scratch_bytes() that all parts of the block share; may be the scratch of one part
};

// Kernels allocate nothing in `run`, and one kernel may run in several threads at once, each with its own scratch.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Status run(const KernelCall& call) const = 0;
  virtual Bytes scratch_bytes() const { return 0; }

  // The largest number of parts into which a call can be divided. Each part computes some of the outputs, from the
  // first operation to the last one, exactly like the whole call, so the division changes no bit
  // (docs/internals/determinism.md, "Parts of a row block").
  virtual int64_t parts() const { return 1; }
  // The number of phases of a part. All parts of a phase end before the next phase begins. A kernel with several phases
  // passes values on in bytes of `shared` that it does not use as `scratch`, since both may be the same memory.
  virtual int phases() const { return 1; }

  // The kernel's time as a fraction of the time for the flops of the operator (OpDef::cost). It is below 1 for
  // algorithms that need fewer flops.
  virtual double work() const { return 1; }

  // For kernels that use a weight in their own layout or dtype. prepared_bytes is the size of that form of input i; 0
  // means that the weight is used as declared. prepare makes the form from `plain`, which is f32, row-major as
  // declared; it is called once after each update of the weight.
  virtual Bytes prepared_bytes(int /*input*/) const { return 0; }
  virtual Status prepare(int /*input*/, const TensorView& /*plain*/, std::byte* /*prepared*/,
                         std::byte* /*scratch*/) const {
    return {};
  }

  // For operators with `folds_states`: updates the states (inputs of the node that are not trained) once per step. The
  // update uses the outputs of all `blocks` row blocks of the global batch, in block order
  // (docs/internals/determinism.md, "Batch norm"). Views are whole tensors, so outputs are [blocks, ...].
  virtual Status fold_states(std::span<const TensorView> /*inputs*/, std::span<const TensorView> /*outputs*/,
                             int64_t /*blocks*/) const {
    return {};
  }
};

using MakeKernel = Result<std::unique_ptr<Kernel>> (*)(const KernelSpec& spec);

struct Op {
  OpDef def;
  MakeKernel cpu = nullptr;  // null for heads, their losses and metrics, which ops/head/head.h computes
};

// Returns all operators, in the order of the table of the standard library (catalog.cpp).
std::span<const Op* const> catalog();
const OpRegistry& registry();
const Op* find_op(std::string_view name);

}  // namespace xrun::ops
