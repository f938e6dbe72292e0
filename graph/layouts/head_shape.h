// Class blocks, shards and memory of a sharded classifier head as pure functions of its shape
// (docs/internals/determinism.md, "Class blocks" and "Sums over classes"). The planner computes sizes with them, and
// the head kernels (ops/head/head.h) lay out their buffers with them.
//   class block  consecutive classes: the unit of sharding, of every sum over classes, and of selection
//   subtree      2^l consecutive class blocks whose first number is a multiple of 2^l (the last subtree may have
//                fewer): a node of the one fixed binary tree over all blocks
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/units.h"
#include "graph/settings/head_def.h"
#include "graph/types/tensor_type.h"

namespace xrun {

struct Module;

// Half-open ranges of class blocks, and of class rows.
struct BlockRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const BlockRange&) const = default;
};
struct ClassRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ClassRange&) const = default;
};

// The number of classes of a block: 2^floor(log2(C / 64)), clamped to 64..16384. If only some classes are active in a
// step, blocks are larger by a power of two, so that each has kHeadTileClasses active classes on average; otherwise the
// fixed cost of each block would be large compared with its matrix products.
int64_t class_block(int64_t classes, int64_t active);

// The division of a head's classes into blocks.
struct ClassBlocks {
  int64_t classes = 0;
  int64_t size = 0;  // classes of each block; the last one may have fewer

  int64_t count() const { return (classes + size - 1) / size; }
  // These functions return the blocks of shard number `shard` of `shards`, which may be an empty range; the class rows
  // of that shard; and the blocks that make up the class rows of a shard.
  BlockRange of_shard(int64_t shard, int64_t shards) const;
  ClassRange rows_of_shard(int64_t shard, int64_t shards) const;
  BlockRange of_rows(ClassRange rows) const;
  // Divides `range` into the largest possible subtrees, in ascending order, of at most 2^max_level blocks each.
  std::vector<BlockRange> subtrees(BlockRange range, int max_level = 62) const;
};
// The blocks of head number `head` of the module's graph. Plans store their size (HeadPlan::class_block).
ClassBlocks class_blocks(const Module& module, size_t head);

// The work of one launch of a kernel on a GPU, which bounds the working memory of a pass. It is enough to keep a GPU
// busy: 256 x 16 tiles of a product.
struct GpuHeadWork {
  int64_t classes = 16384;  // classes of a launch, if a class block does not have more
  int64_t places = 1024;    // padded rows of a launch, if a row block does not have more
};

// All parameters of the passes of one shard of a head, except for the instruction set.
struct HeadShape {
  ClassBlocks blocks;  // blocks of the whole head
  int64_t dim = 0;
  ClassRange shard;       // class rows of this shard: whole class blocks
  int64_t rows = 0;       // gathered rows of one pass, h (for the update sweep: the batch)
  int64_t norm_rows = 0;  // rows of a row block, g; divides `rows`
  bool bf16 = false;      // operands of products are rounded to bf16; sums are f32 either way
  bool f16 = false;       // features and class weights are rounded to f16 for products, which are computed in f32
  DType features = DType::kF32;  // element type of the incoming features; their gradient is f32
  HeadForm form;
  MarginForm margin;
  double row_weight = 1;  // d(objective) / d(loss of a row)
  int64_t top_k = 1;      // best classes kept for each row: the largest k of its metrics, or of predict; 0: not kept
  int workers = 1;        // workers of the device
  // The number of active classes of the whole head in a step, and the number of rows of a step. The labels of these
  // rows are selected first.
  int64_t active = 0;  // active classes; 0: all classes
  int64_t step_rows = 0;
  int64_t neighbours = 0;  // length of each class's list of nearest classes, which are selected first; 0: no lists
  bool log_q = false;      // the logits of active classes are corrected by their sampling probability
  Untouched untouched = Untouched::kAsIs;
  RowFormat weights = RowFormat::kF32;  // format of class weights in memory
  RowFormat states = RowFormat::kF32;   // format of optimizer states; f32 or bf16
  int state_count = 2;                  // states of each weight; passes have memory for at least two
  int64_t kept_blocks = 0;  // the logits of this many first blocks of the shard are kept for the backward pass
  // For a head on GPUs, whose passes need another scratch (graph/layouts/gpu_head.h).
  std::optional<GpuHeadWork> gpu;
};

// The numbers of classes that a selection has chosen.
struct HeadCounts {
  int64_t all = 0;   // number of active classes of the whole head
  int64_t near = 0;  // number of active classes taken from lists of nearest classes
  int64_t of_shard = 0;
  int64_t common = 0;  // active classes of the shard that were also active in the previous step
};

// Offsets in the memory of a selection for one shard (ops/head/select_classes.h): HeadCounts first, then arrays of i32,
// except for `corrections`, which are f32.
struct HeadSelection {
  Bytes chosen = 0;       // for the whole head: distinct target classes, then classes of their lists
  Bytes met = 0;          // hash table of `chosen`: [slots]
  Bytes counts = 0;       // number of `chosen` classes in each block of the head
  Bytes offsets = 0;      // start of each block's classes in `classes`: [blocks of the shard + 1]
  Bytes draws = 0;        // random numbers that select classes: [most]
  Bytes classes = 0;      // active classes of the shard: [most]
  Bytes corrections = 0;  // corrections of the logits of `classes`, with log_q
  Bytes former = 0;       // active classes of the previous step
  Bytes total = 0;
  int64_t slots = 0;  // slots of the hash table, a power of two; 0 without lists
  int64_t most = 0;   // classes of the shard that may be active
};
HeadSelection head_selection(const HeadShape& shape);

enum class HeadPass { kForward, kBackward, kUpdate };

// Sizes of the buffers of one shard in bytes; a shard without rows needs no buffers. All are multiples of 64.
Bytes head_prepared_bytes(const HeadShape& shape);  // 1 / norm of each class row; 0 bytes without cosine
Bytes head_stats_bytes(const HeadShape& shape);     // softmax statistics per subtree and row, from head_forward
Bytes head_gradient_bytes(const HeadShape& shape);  // partial sums of dX per subtree, from head_backward
Bytes head_scratch_bytes(const HeadShape& shape, HeadPass pass);  // memory of one pass, all workers together
// Number of classes of the kept blocks whose logits are stored, and the bytes of these logits in a pass. With lists of
// nearest classes the kept blocks may have more active classes; the logits of the last ones are then not stored.
int64_t head_kept_classes(const HeadShape& shape);
Bytes head_logits_bytes(const HeadShape& shape);
// The head with all classes active in every step, and without kept logits.
HeadShape of_all_classes(const HeadShape& shape);
// Scratch for measuring the softmax mass of the active classes (ops/head/mass.h): statistics, then the scratch of a
// forward pass. The result takes kHeadMassRow bytes a row.
Bytes head_mass_scratch_bytes(const HeadShape& shape);
inline constexpr Bytes kHeadMassRow = 16;
// The bytes of {max, 1 / sum} for one row of a pass. combine_stats computes them, and they are kept until the row's
// last sweep.
inline constexpr Bytes kHeadSoftmaxRow = 8;
Bytes head_softmax_bytes(const HeadShape& shape);

// The place of the rows [row_begin, row_end) of a pass in a shard's partial sums of dX. In those of the first subtree
// the rows are the `bytes` bytes from offset `begin` on; each further subtree adds `step` to the offset. REQUIRES:
// whole row blocks.
struct HeadGradientRows {
  Bytes begin = 0;
  Bytes bytes = 0;
  Bytes step = 0;
  int64_t subtrees = 0;
  bool operator==(const HeadGradientRows&) const = default;
};
HeadGradientRows head_gradient_rows(const HeadShape& shape, int64_t row_begin, int64_t row_end);

// Layout of the buffers above, which the kernels also use.
// Width of a panel of a product; in bf16 also the step of sums, to which row blocks are padded
// (docs/internals/determinism.md, "Head products").
inline constexpr int64_t kHeadStep = 32;
inline constexpr int64_t kHeadTileClasses =
    128;  // classes of a tile: logits of 512 rows stay in half a second-level cache
inline constexpr int64_t kHeadTileRows = 512;
inline constexpr int64_t kHeadSkew = 16;  // elements added to long strides, against cache-set conflicts

struct HeadLayout {
  int64_t dim_padded = 0;
  int64_t row_block_padded = 0;
  int64_t rows_padded = 0;  // each row block is padded by itself, the sum to whole panels
  int64_t tile_classes = 0;
  int64_t tile_rows = 0;
  int64_t stat_planes = 0;  // f32 planes of `rows_padded` each: max, sum, sum of z, target, top-k values, top-k classes
  BlockRange blocks;        // class blocks of the shard
  std::vector<BlockRange> subtrees;
  int64_t partials = 0;  // most partial results held at once; the first of each subtree is not counted
};
HeadLayout head_layout(const HeadShape& shape);

// Offsets in the scratch of a pass: shared parts first, then one slice per worker. Offsets in a slice count from its
// start. Parts that the pass does not use are empty.
struct HeadScratch {
  Bytes logit_rows = 0;     // rows packed as the right side of X·Wᵀ
  Bytes gradient_rows = 0;  // rows packed as the right side of Gᵀ·X
  Bytes row_values = 0;     // values per row: kHeadRowPlanes planes of rows_padded f32
  Bytes steep = 0;          // contribution of angular margins to dX, row by row (ops/head/steep.h)
  Bytes partials = 0;       // partial results of blocks that are not the first of their subtree
  Bytes partial_bytes = 0;  // size of one partial result
  Bytes fold = 0;           // for adding partial results: kHeadFoldNodeBytes per block, an address per result
  Bytes workers = 0;
  Bytes worker_bytes = 0;
  // Offsets inside a worker's slice:
  Bytes logit_weights = 0;     // the tile's classes packed as the left side of W·Xᵀ
  Bytes gradient_weights = 0;  // the tile's classes packed as the right side of G·W
  Bytes logits = 0;            // logits of a tile: [tile_classes, tile_rows + kHeadSkew]
  Bytes pairs = 0;             // G packed as the left side of G·W (bf16)
  Bytes weight_gradient = 0;   // dW of a tile: [tile_classes, dim_padded]
  Bytes class_values = 0;      // bias gradient by lane: [tile_classes, 16]
  // Copies of a tile's rows if they are not contiguous f32 in memory or must catch up: weights [tile_classes, dim],
  // states of that shape, and for each row 1 / norm, bias and states of the bias.
  Bytes class_rows = 0;
  Bytes class_states = 0;
  Bytes class_vectors = 0;
  Bytes total = 0;
};
inline constexpr int64_t kHeadRowPlanes = 7;
inline constexpr Bytes kHeadFoldNodeBytes = 16;
HeadScratch head_scratch(const HeadShape& shape, HeadPass pass);
// The layout of the scratch of a pass. `layout` is head_layout(shape); it is an argument so that passes allocate
// nothing.
HeadScratch head_scratch(const HeadShape& shape, const HeadLayout& layout, HeadPass pass);

}  // namespace xrun
