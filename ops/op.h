// Op: an operator's meaning (OpDef) together with a function that makes its CPU kernel. For adding an operator see
// docs/internals/adding_an_op.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/op_def.h"
#include "ops/isa.h"

namespace xrun::ops {

// Memory of one operand for one row block, in the layout of its type (graph/tensor_type.h).
struct TensorView {
  std::byte* data = nullptr;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// The specification of a kernel. Calls have exactly these types and `rows` rows (docs/internals/determinism.md, "Row
// blocks"), so a kernel object is made once per spec and may hold compiled primitives.
struct KernelSpec {
  std::vector<TensorType> inputs;  // the node's inputs, parameters included
  std::vector<TensorType> outputs;
  Attrs attrs;
  int64_t rows = 0;  // row block, g
  bool training = true;
  bool deterministic = false;
  Isa isa = Isa::kAvx2;  // at most this instruction set
  std::string path;      // path of the node: keys random draws
  bool compile = false;  // element-wise loops (ops/jit/compiler.h): for kernels that run, not for their facts
};

inline constexpr int kAllPhases = -1;

// One call, on one row block.
struct KernelCall {
  std::span<const TensorView> inputs;   // prepared form where prepared_bytes(i) > 0
  std::span<const TensorView> outputs;  // for a kReduces operator: the accumulator, to which the call adds
  std::byte* scratch = nullptr;         // scratch_bytes(), aligned to 64
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_row = 0;  // position of the block's first row in the global batch
  // For a call in parts (Kernel::parts); a whole call is one part with all phases.
  int64_t part = 0;
  int64_t parts = 1;
  int phase = kAllPhases;
  std::byte* shared = nullptr;  // scratch_bytes() that all parts of the block see; may be the scratch of one of them
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
  // All parts of a phase end before those of the next one begin. A kernel with several phases passes values on in bytes
  // of `shared` that it does not use as `scratch`, since both may be the same memory.
  virtual int phases() const { return 1; }

  // The kernel's time as a fraction of the time for the operator's flops (OpDef::cost): below 1 for algorithms that
  // need fewer flops.
  virtual double work() const { return 1; }

  // For weights that the kernel uses in its own layout or dtype: the size of that form of input i (0: used as
  // declared), and its preparation, once after each update of the weight. `plain` is f32, row-major as declared.
  virtual Bytes prepared_bytes(int /*input*/) const { return 0; }
  virtual Status prepare(int /*input*/, const TensorView& /*plain*/, std::byte* /*prepared*/,
                         std::byte* /*scratch*/) const {
    return {};
  }

  // For operators with `folds_states`: one update per step of the states (inputs of the node that are not trained) from
  // the G outputs of all `blocks` row blocks of the global batch, in block order (docs/internals/determinism.md, "Batch
  // norm"). Views are whole tensors: outputs [blocks, ...].
  virtual Status fold_states(std::span<const TensorView> /*inputs*/, std::span<const TensorView> /*outputs*/,
                             int64_t /*blocks*/) const {
    return {};
  }
};

using MakeKernel = Result<std::unique_ptr<Kernel>> (*)(const KernelSpec& spec);

struct Op {
  OpDef def;
  MakeKernel cpu = nullptr;  // null for heads, their losses and metrics: ops/head.h
};

// All operators, in the order of the standard-library table (catalog.cpp).
std::span<const Op* const> catalog();
const OpRegistry& registry();
const Op* find_op(std::string_view name);

}  // namespace xrun::ops
