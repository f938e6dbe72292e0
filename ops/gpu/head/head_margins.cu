// The targets' logits of the rows of a classifier head, and the margins that change them, in f64. Rows whose target is
// not one of the classes of a launch keep their values.
//   labels   [places] from head_rows (ops/gpu/head/head_rows.h)
//   targets  the target's logit before the margin
// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/head/head_rows.h"
#include "ops/head/margin_formulas.h"
#include "ops/head/margin_program.h"

using namespace xrun::ops;

// targets[place] = the logit of the row's target, if it is one of the `count` classes of z from `first` on. One thread
// a place.
extern "C" __global__ void head_targets(const float* z, const int32_t* labels, float* targets, int64_t count,
                                        int64_t places, int64_t first) {
  const int64_t place = thread_index();
  if (place < places && Range{first, count}.has(labels[place])) {
    targets[place] = z[(labels[place] - first) * places + place];
  }
}

// psi and its slope at the targets' logits, for rows with a target in the range. `grad` is the MarginGrad. A margin
// with an expression of its own replaces this kernel. One thread a place.
extern "C" __global__ void head_margin(const float* targets, const int32_t* labels, double* psi, double* slope,
                                       int64_t count, int64_t places, int64_t first, double m1, double m2, double m3,
                                       uint32_t grad, uint32_t easy) {
  const int64_t place = thread_index();
  if (place >= places || !Range{first, count}.has(labels[place])) {
    return;
  }
  const PsiAndSlope made = margin64({m1, m2, m3, grad, easy != 0}, static_cast<double>(targets[place]));
  psi[place] = made.psi;
  slope[place] = made.slope;
}

// Likewise for a margin that is an expression of its own, with `node_count` nodes, two of which have psi and the slope.
// `values` [node_count, places] is working memory. One thread a place.
extern "C" __global__ void head_own_margin(const float* targets, const int32_t* labels, const MarginNode* nodes,
                                           double* values, double* psi, double* slope, int64_t node_count,
                                           int64_t psi_node, int64_t slope_node, int64_t count, int64_t places,
                                           int64_t first) {
  const int64_t place = thread_index();
  if (place >= places || !Range{first, count}.has(labels[place])) {
    return;
  }
  const auto x = static_cast<double>(targets[place]);
  double* const own = values + place;
  const auto argument = [&](int32_t node) { return node < 0 ? 0.0 : own[node * places]; };
#pragma unroll 1
  for (int64_t n = 0; n < node_count; ++n) {
    const MarginNode& node = nodes[n];
    const auto op = static_cast<MarginOp>(node.op);
    own[n * places] = op == MarginOp::kInput ? (x < -1  ? -1.0
                                                : x > 1 ? 1.0
                                                        : x)
                      : op == MarginOp::kConstant
                          ? node.value
                          : apply_margin_op(op, argument(node.args[0]), argument(node.args[1]), argument(node.args[2]));
  }
  psi[place] = own[psi_node * places];
  slope[place] = own[slope_node * places];
}

// Writes nodes of such an expression, which are arguments of the launch, to memory: the first `count` of these words.
// One thread.
extern "C" __global__ void head_store_nodes(uint64_t* nodes, int64_t count, uint64_t w0, uint64_t w1, uint64_t w2,
                                            uint64_t w3, uint64_t w4, uint64_t w5, uint64_t w6, uint64_t w7,
                                            uint64_t w8, uint64_t w9, uint64_t w10, uint64_t w11) {
  if (thread_index() != 0) {
    return;
  }
  const uint64_t words[12] = {w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11};
#pragma unroll
  for (int i = 0; i < 12; ++i) {
    if (i < count) {
      nodes[i] = words[i];
    }
  }
}
