// Norms of tensors that updates read, such as those of the trust ratios of lars and lamb, from sums of squares. The
// sums of a norm are added in ascending order, like those of the processor; the functions of the norms are computed in
// f64 by functions of this project in place of those of libm (ops/head/margin_program.h).
// Tests: tests/ops/gpu/launch/updates_test.cpp
#include "ops/gpu/update/sums_in_order.h"
#include "ops/gpu/update/update_table.h"
#include "ops/head/margin_program.h"

using namespace xrun::ops;
using xrun::ops::gpu::NormEntry;

// Sets the norms of one level, whose indices among the `norms` norms of the rule are in `level` [level_norms], and then
// the results of the program of the rule: nodes `results` [result_count] of `nodes` [node_count]. Node
// kInput is the norm with the index args[0]. One block of 256 threads for each entry.
extern "C" __global__ void tensor_norms(const NormEntry* entries, const int32_t* level, int64_t level_norms,
                                        const MarginNode* nodes, int64_t node_count, int64_t norms,
                                        const int32_t* results, int64_t result_count) {
  __shared__ double terms[kTermsInOrder];
  const NormEntry& entry = entries[blockIdx.x];
  auto* const known = reinterpret_cast<double*>(entry.norms);
#pragma unroll 1
  for (int64_t n = 0; n < level_norms; ++n) {
    const auto* const squares = reinterpret_cast<const double*>(entry.squares + n * entry.stride);
    const double sum = sum_in_order(entry.pieces, terms, [&](int64_t i) { return squares[i]; });
    if (threadIdx.x == 0) {
      known[level[n]] = __dsqrt_rn(sum);
    }
  }
  if (threadIdx.x != 0) {
    return;
  }
  double* const values = known + norms;
  const auto argument = [&](int32_t node) { return node < 0 ? 0.0 : values[node]; };
#pragma unroll 1
  for (int64_t n = 0; n < node_count; ++n) {
    const MarginNode& node = nodes[n];
    const auto op = static_cast<MarginOp>(node.op);
    values[n] = op == MarginOp::kInput ? known[node.args[0]]
                : op == MarginOp::kConstant
                    ? node.value
                    : apply_margin_op(op, argument(node.args[0]), argument(node.args[1]), argument(node.args[2]));
  }
#pragma unroll 1
  for (int64_t r = 0; r < result_count; ++r) {
    reinterpret_cast<float*>(entry.results)[r] = static_cast<float>(values[results[r]]);
  }
}
