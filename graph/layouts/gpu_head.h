// Working memory of classifier heads on GPUs (HeadShape::gpu). A pass over a shard launches kernels for pieces of the
// tree over class blocks, and within a piece for some rows at a time, so its memory is bounded. The planner computes
// sizes with these functions, and ops/gpu/launch/head/ lays out its buffers with them.
//   piece  consecutive class blocks of the shard that are a node of the tree
//   slot   partial results of a node of the tree for all rows of the pass: statistics, or dX
//   place  index of a row after padding (HeadLayout)
#pragma once

#include <span>
#include <vector>

#include "graph/layouts/head_folds.h"

namespace xrun {

// Places of a pass of whole row blocks, and the rows that they have.
struct GpuHeadRows {
  int64_t first_place = 0;
  int64_t places = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
};

struct GpuHeadLayout {
  HeadLayout all;
  std::vector<ClassRange> pieces;            // class rows; logits of a piece are kept as a whole or not at all
  int64_t kept_pieces = 0;                   // number of first pieces whose logits are kept
  std::vector<std::vector<HeadFold>> folds;  // sums of the pieces for each subtree of the shard
  std::vector<GpuHeadRows> chunks;           // rows of a launch
  int64_t piece_classes = 0;                 // the largest numbers of classes and of class blocks of a piece, and of
  int64_t piece_blocks = 0;                  // places of a chunk
  int64_t chunk_places = 0;
  int64_t waiting = 0;  // slots of results that wait, without the first one of a sum
};
// REQUIRES: shape.gpu, and the shard has rows.
GpuHeadLayout gpu_head_layout(const HeadShape& shape);

// Size of a node of a margin that is an expression of its own (ops/head/margin_program.h).
inline constexpr Bytes kGpuMarginNode = 24;

// Offsets in the scratch of a pass. Parts that the pass does not use are empty.
struct GpuHeadScratch {
  Bytes rows = 0;      // operand of products: [rows_padded, dim_padded], f32 or bf16
  Bytes inverses = 0;  // 1 / norm of each row, f64
  Bytes labels = 0;    // label of each place, i32
  Bytes targets = 0;   // logit of the target, f32
  Bytes psi = 0;       // the same after the margin, f64
  Bytes slope = 0;     // f64
  Bytes nodes = 0;     // nodes of a margin that is an expression of its own
  Bytes values = 0;    // values of these nodes for the places of a chunk, f64
  Bytes classes = 0;   // operand of products: [piece_classes, dim_padded]
  Bytes logits = 0;    // [piece_classes, chunk_places] f32; in f32 also their gradients
  Bytes slots = 0;     // slots of the blocks of a piece, if it has several
  Bytes waiting = 0;
  // Not in the forward pass: values of each place, f32 (ops/gpu/head/head_gradient.cu).
  Bytes maxima = 0;
  Bytes factors = 0;
  Bytes smooths = 0;
  Bytes target_gradient = 0;
  Bytes steep = 0;
  Bytes gradient = 0;         // gradients of the logits: [piece_classes, chunk_places], those of f32 in `logits`
  Bytes weight_gradient = 0;  // dW: [piece_classes, dim_padded] f32
  Bytes lanes = 0;            // bias gradient by lane: [piece_classes, 16] f32
  Bytes bias_gradient = 0;    // [piece_classes] f32
  Bytes squares = 0;          // squared norm of the gradient of each class, f64
  Bytes total = 0;
};
GpuHeadScratch gpu_head_scratch(const HeadShape& shape, const GpuHeadLayout& layout, HeadPass pass);

// Offsets in the scratch of the combination of the statistics of all shards. Parts of losses are empty without labels.
struct GpuHeadJoinScratch {
  Bytes labels = 0;
  Bytes psi = 0;
  Bytes slope = 0;
  Bytes nodes = 0;
  Bytes values = 0;  // for all places
  Bytes waiting = 0;
  Bytes total = 0;
};
// `shards`: the class rows of all shards; some may be empty. `labels`: whether losses or hits are computed.
GpuHeadJoinScratch gpu_join_scratch(const HeadShape& shape, std::span<const ClassRange> shards, bool labels);

// Size of the scratch of a sum of dX over `terms` for `rows` rows, which are whole row blocks: the slots of results
// that wait.
Bytes gpu_dx_scratch_bytes(const HeadShape& shape, std::span<const ClassRange> terms, int64_t rows);

}  // namespace xrun
