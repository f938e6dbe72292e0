// GpuLoop: the description of an element-wise loop that becomes one kernel of a GPU. Each thread computes one element,
// or, if the results are summed over rows, each row has sixteen threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/types/scalar_expr.h"
#include "graph/types/tensor_type.h"
#include "ops/jit/loop_form.h"

namespace xrun::ops {

// The instructions that a kernel may use. A text for kSm80 runs on every GPU since Ampere, one for kSm90 on every GPU
// since Hopper: kernels use no features of a single generation (`sm_90a`), so the driver translates them for later
// GPUs.
enum class GpuTarget : uint8_t { kSm80, kSm90 };
constexpr std::string_view name_of(GpuTarget target) { return target == GpuTarget::kSm90 ? "sm_90" : "sm_80"; }

struct GpuOperand {
  enum class Reach : uint8_t {
    kEach,    // an element for each element of the loop, in the same order; may be the memory of a result
    kSteps,   // broadcast: the element at the sum of index · step over the dimensions of the loop
    kOne,     // one f32 in memory for all elements
    kNumber,  // one f32 that is an argument of the kernel
  };
  Reach reach = Reach::kEach;
  DType dtype = DType::kF32;   // f32, bf16 or f16
  std::vector<int64_t> steps;  // kSteps: a step for each of GpuLoop::dims, in elements
};

struct GpuLoop {
  // Sums of the results over the elements of a row. A row has sixteen running sums, one for every sixteenth element;
  // they are then added in a fixed tree (docs/internals/determinism.md), so the bits are those of the CPU's kernels.
  enum class Sums : uint8_t {
    kNone,
    kMeans,    // sums in f32, divided by the number of elements of a row: an f32 for each row
    kSquares,  // sums of squares in f64: an f64 for each row
  };

  ScalarExpr expr;                 // the function of one element, without nodes that no result needs
  std::vector<GpuOperand> inputs;  // inputs of `expr`
  std::vector<DType> outputs;      // types of the results: f32, bf16 or f16 (rounded to nearest); f32 for sums
  std::vector<int64_t> dims;       // dimensions of the loop, the innermost last; kernels do not read the outermost
  Sums sums = Sums::kNone;
  int64_t row = 0;     // number of elements of a row, for sums; the last row of kSquares may be shorter
  bool large = false;  // whether there may be 2^31 elements or more; indices then have 64 bits
};

inline constexpr const char* kGpuKernel = "xrun_loop";  // the kernel's name in the text
inline constexpr int64_t kGpuThreads = 256;             // threads of a block
inline constexpr int64_t kRowThreads = 16;              // threads of a row, for sums

// The kernel's parameters are the inputs (a 64-bit address, or an f32 for kNumber), the addresses of the results, and
// the number of elements with 64 bits. Returns the number of blocks for a launch. REQUIRES: elements > 0.
int64_t gpu_blocks(const GpuLoop& loop, int64_t elements);

// Returns the kernel of a loop for CPUs: uniform inputs are numbers in memory, and running sums of squares become one
// sum for every `row` elements. A loop without sums ignores `row`.
GpuLoop gpu_loop(const LoopForm& form, int64_t row = 0);

// Checks that a kernel can be written. Errors: XG0824, which names the part of the loop that is not supported.
Status check(const GpuLoop& loop);

// Returns one line that identifies a kernel, such as "sm_90 f32 bf16[0 1] number -> f32 over 32 64: x0 * x2 + x1".
std::string describe(const GpuLoop& loop, GpuTarget target);

}  // namespace xrun::ops
