// Tests: tests/gpu_loops/maps_test.cpp
#include "ops/loops/gpu_map.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/loops/broadcast.h"
#include "ops/loops/strides.h"

namespace xrun::ops {
namespace {

using Reach = GpuOperand::Reach;

// Strides are computed for this number of rows. The kernel does not depend on it: rows are in the outermost dimension,
// whose size a kernel does not read.
constexpr int64_t kSomeRows = 2;

// The dimensions of the result in memory order, and the steps of each operand; dimensions that are contiguous in the
// result and in all operands are merged.
struct Merged {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> steps;  // index: operand, the result first
};

Merged merge(const std::vector<int64_t>& dims, const std::vector<std::vector<int64_t>>& strides) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return strides[0][a] > strides[0][b]; });
  Merged merged{.dims = {}, .steps = std::vector<std::vector<int64_t>>(strides.size())};
  for (const size_t d : order) {
    if (dims[d] == 1) {
      continue;
    }
    bool merges = !merged.dims.empty();
    for (size_t k = 0; merges && k < strides.size(); ++k) {
      merges = merged.steps[k].back() == strides[k][d] * dims[d];
    }
    if (merges) {
      merged.dims.back() *= dims[d];
    } else {
      merged.dims.push_back(dims[d]);
    }
    for (size_t k = 0; k < strides.size(); ++k) {
      if (merges) {
        merged.steps[k].back() = strides[k][d];
      } else {
        merged.steps[k].push_back(strides[k][d]);
      }
    }
  }
  return merged;
}

}  // namespace

Result<GpuLoop> gpu_map(std::span<const TensorType> inputs, std::span<const TensorType> outputs, ScalarExpr expr,
                        int64_t most_rows) {
  const TensorType& result = outputs[0];
  const std::vector<int64_t> dims = block_dims(result, kSomeRows);
  std::vector<std::vector<int64_t>> strides{block_strides(result, kSomeRows)};
  for (const TensorType& input : inputs) {
    if (!input.dims.empty() && input.dims[0] == kPerBlock) {
      return Error{ErrorKind::kContent, "XG0824",
                   "no kernel of a GPU can be made: an operand has values for row blocks",
                   "train on CPUs, or write the function with other operators"};
    }
    strides.push_back(broadcast_strides(aligned(input, result.rank()), dims, kSomeRows));
  }
  const Merged merged = merge(dims, strides);
  GpuLoop loop{.expr = std::move(expr), .inputs = {}, .outputs = {}, .dims = {}};
  for (size_t k = 0; k < inputs.size(); ++k) {
    const std::vector<int64_t>& steps = merged.steps[k + 1];
    const bool is_one = std::ranges::all_of(steps, [](int64_t step) { return step == 0; });
    if (steps == merged.steps[0]) {
      loop.inputs.push_back({.reach = Reach::kEach, .dtype = inputs[k].dtype, .steps = {}});
    } else if (is_one && inputs[k].dtype == DType::kF32) {
      loop.inputs.push_back({.reach = Reach::kOne, .dtype = DType::kF32, .steps = {}});
    } else {
      loop.inputs.push_back({.reach = Reach::kSteps, .dtype = inputs[k].dtype, .steps = steps});
      loop.dims = merged.dims;
    }
  }
  for (const TensorType& output : outputs) {
    loop.outputs.push_back(output.dtype);
  }
  loop.large = result.row_elements() > std::numeric_limits<int32_t>::max() / std::max<int64_t>(1, most_rows);
  XRUN_TRY(check(loop));
  return loop;
}

}  // namespace xrun::ops
