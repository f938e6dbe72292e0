// The inner loops of head passes, one table for each instruction set and operand type. Only `pairs` determines their
// layout: operands are 32-bit elements, either one f32 or two neighbouring bf16 of the summed dimension.
#pragma once

#include <cstdint>

#include "graph/update_rule.h"
#include "ops/isa.h"

namespace xrun::ops {

inline constexpr float kHeadEpsilon = 1e-12F;

// Memory that is needed soon: products prefetch it into the second-level cache, a line every few steps. Successive
// products take lines from the front of the ranges.
struct HeadPrefetch {
  struct Range {
    const char* begin = nullptr;
    int64_t bytes = 0;
  };
  static constexpr int kMost = 3 + kMostUpdateStates;  // weights, logits, states of an update, means
  Range ranges[kMost];
  int count = 0;
  int next = 0;
};

// C[m][n] (+)= sum over k of A[m][k] · B[k][n] in one chain, k ascending. n comes in panels of 32, each [k][32].
struct HeadGemm {
  int64_t m = 0;
  int64_t panels = 0;
  int64_t k = 0;                // elements, each one step of the chain
  const uint32_t* a = nullptr;  // element (m, k) at a[m · a_m + k · a_k]; one of the strides is 1
  int64_t a_m = 0;
  int64_t a_k = 0;
  const uint32_t* b = nullptr;  // panel p starts at b + p · b_panel
  int64_t b_panel = 0;
  float* c = nullptr;  // element (m, n) at c[m · c_m + n]
  int64_t c_m = 0;
  bool add = false;  // continue the chain in C; else it starts at 0
  HeadPrefetch* prefetch = nullptr;
};

// Class rows of a tile as operands of both products; classes after `classes` up to a multiple of 32 become zeros.
struct HeadPackClasses {
  const float* weight = nullptr;   // [classes, dim]
  const float* inverse = nullptr;  // 1 / norm of each class, or null
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t dim_padded = 0;
  bool round = false;        // round to bf16 values
  uint32_t* rows = nullptr;  // left side of the logits: [classes][rows_stride]; null: not wanted
  int64_t rows_stride = 0;
  uint32_t* panels = nullptr;  // right side of dX: [dim_padded / 32][panel_steps][32]; null: not wanted
  int64_t panel_steps = 0;
};

// A tile of logits, classes down and rows across: element (class, row) at z[class · stride + row].
struct HeadTile {
  float* z = nullptr;
  int64_t stride = 0;
  int64_t classes = 0;
  int64_t rows = 0;             // a multiple of 32
  int64_t first_class = 0;      // number in the whole head
  const float* bias = nullptr;  // bias of the tile's classes, or null
  bool clamp = false;           // for cosines: clamp to [-1, 1]
  float scale = 1;
  // Changes of the loss to the logits of a class in rows with another target: those above `filter` become 0, and
  // corrections[class] is added to the scaled logit. Infinity and null change nothing.
  float filter = __builtin_inff();
  const float* corrections = nullptr;

  bool changes_logits() const { return filter < __builtin_inff() || corrections != nullptr; }
};

// Per-row state of a class block; every plane has an element for each row of the tile.
struct HeadTileStats {
  float* max = nullptr;    // max of z
  float* sum = nullptr;    // sum of exp(z - max)
  float* total = nullptr;  // sum of the logits as the loss sees them; null without smoothing
  int64_t top_k = 0;
  float* best = nullptr;  // [top_k] planes, best first; equal logits keep their order
  int32_t* best_class = nullptr;
  int64_t plane = 0;  // elements between the planes of `best`
  const int32_t* label = nullptr;
  const float* target = nullptr;  // the label's logit after the margin
};

struct HeadTileGradient {
  const float* max = nullptr;
  const float* factor = nullptr;  // inverse sum · scale · row weight; 0 for rows without a target and for padding
  const float* smooth = nullptr;  // the term of smoothing in every gradient of the row, <= 0; 0 where `factor` is 0
};

struct HeadKernels {
  bool pairs = false;
  void (*gemm)(const HeadGemm& call) = nullptr;
  void (*pack_classes)(const HeadPackClasses& call) = nullptr;
  // Adds the bias, clamps, and folds strips of 64 classes into the statistics, ascending. Changes z.
  void (*add_stats)(const HeadTile& tile, const HeadTileStats& stats) = nullptr;
  // z becomes d(objective)/d(logit), as if no row had a target in the tile.
  void (*gradient)(const HeadTile& tile, const HeadTileGradient& rows) = nullptr;
  // bf16: z as left side of dW, in place [class][rows / 2], and as left side of dX, pairs [classes / 2][pairs_stride].
  // Classes after the tile's up to a multiple of 32 become zeros. Null without pairs.
  void (*pack_gradient)(const HeadTile& tile, uint32_t* pairs, int64_t pairs_stride) = nullptr;
  // lanes[class][16] += z[class][row], rows ascending; lane = (row mod row_block) mod 16, with rows from first_row on.
  void (*sum_rows)(const HeadTile& tile, int64_t first_row, int64_t row_block, float* lanes) = nullptr;
  void (*add)(float* to, const float* from, int64_t n) = nullptr;  // n: a multiple of 16
  // Copies past the caches; `to` aligned to 64, n a multiple of 16. Other threads see it only after a store fence.
  void (*stream)(float* to, const float* from, int64_t n) = nullptr;
  // 1 / max(norm of w, kHeadEpsilon).
  float (*inverse_norm)(const float* w, int64_t dim) = nullptr;
  // Gradient of a class weight from that of its direction w · inverse: g = inverse · (g - (g · direction) direction).
  void (*project)(float* g, const float* w, float inverse, int64_t dim) = nullptr;
};

// The table for an instruction set; on processors without bf16 units, bf16 operands are rounded and computed in f32.
const HeadKernels& head_kernels(Isa isa, bool bf16);

// One table in each source file.
extern const HeadKernels kHeadAvx2;
extern const HeadKernels kHeadAvx512;
extern const HeadKernels kHeadAvx512Bf16;
extern const HeadKernels kHeadAmx;

}  // namespace xrun::ops
