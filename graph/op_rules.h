// The rules by which passes and the planner treat an operator: samples, precision and layouts. OpDef (graph/op_def.h)
// has one of each.
#pragma once

namespace xrun {

// How an operator treats the samples of a batch.
enum class RowProperty {
  kRowWise,     // computes each sample by itself
  kRowCoupled,  // mixes the samples of one row block (batch norm)
  kReduces,     // sums over samples; outputs without a batch dimension are added into an accumulator (weight gradients)
};

// The operator's rule in mixed precision (graph/passes/mixed_precision.cpp).
enum class PrecisionRule {
  kFollows,  // computes in the dtype of its input, sums in f32 (pointwise, pooling, batch norm)
  kNarrow,   // activations are cast to the narrow dtype; weights stay f32 and are rounded when prepared (conv, linear)
  kWide,     // inputs are cast to f32 (losses, softmax)
};

// The layouts of operands and results that can be stored in more than one layout (assign_layouts,
// graph/passes/passes.h).
enum class LayoutRule {
  kAlike,         // all operands and results have one layout (element-wise)
  kChannelsLast,  // channels-last (convolutions, pooling, norms of channels)
  kRowMajor,      // row-major: it works along the last dimension (linear, layer_norm)
  kAny,           // any layout for each: the kernel uses strides (transpose, concat)
};

}  // namespace xrun
