// The inner loops of head passes: one table for each instruction set and operand type. Operands of matrix products are
// 32-bit elements: with `pairs` two bf16 that are neighbours along the summed dimension, otherwise one f32.
#pragma once

#include <cstdint>

#include "graph/settings/update_rule.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

inline constexpr float kHeadEpsilon = 1e-12F;

// Memory that is needed soon. While a matrix product computes, it prefetches one cache line every few steps into the
// second-level cache. Each product continues where the previous one stopped.
struct HeadPrefetch {
  struct Range {
    const char* begin = nullptr;
    int64_t bytes = 0;
  };
  static constexpr int kMost = 3 + kMostUpdateStates;  // weights, logits, states of an update, running mean
  Range ranges[kMost];
  int count = 0;
  int next = 0;
};

// A matrix product: C[m][n] = sum over k of A[m][k] · B[k][n], added to C if `add` is set. Each sum is one chain of
// multiply-adds with ascending k. The columns n come in panels of 32, each [k][32].
struct HeadGemm {
  int64_t m = 0;
  int64_t panels = 0;
  int64_t k = 0;                // length of a sum in elements, each one step of the chain
  const uint32_t* a = nullptr;  // element (m, k) at a[m · a_m + k · a_k]; one of the strides is 1
  int64_t a_m = 0;
  int64_t a_k = 0;
  const uint32_t* b = nullptr;  // panel p starts at b + p · b_panel
  int64_t b_panel = 0;
  float* c = nullptr;  // element (m, n) at c[m · c_m + n]
  int64_t c_m = 0;
  bool add = false;  // whether sums continue from C; otherwise they start at 0
  HeadPrefetch* prefetch = nullptr;
};

// The numbers to which the class rows of a product are rounded.
enum class HeadRounding : uint8_t { kNone, kBf16, kF16 };

// Packs the class rows of a tile as operands of the products for logits and dX. Classes from `classes` up to the next
// multiple of 32 become zeros.
struct HeadPackClasses {
  const float* weight = nullptr;   // [classes, dim]
  const float* inverse = nullptr;  // 1 / norm of each class, or null
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t dim_padded = 0;
  HeadRounding round = HeadRounding::kNone;
  uint32_t* rows = nullptr;  // left side of the product for logits: [classes][rows_stride]; null: not packed
  int64_t rows_stride = 0;
  uint32_t* panels = nullptr;  // right side of the product for dX: [dim_padded / 32][panel_steps][32]; null: not packed
  int64_t panel_steps = 0;
};

// A tile of logits. Classes are rows of the matrix and rows of the batch are columns: the element (class, row) is at
// z[class · stride + row].
struct HeadTile {
  float* z = nullptr;
  int64_t stride = 0;
  int64_t classes = 0;
  int64_t rows = 0;             // number of rows, a multiple of 32
  int64_t first_class = 0;      // number of the tile's first class in the whole head
  const float* bias = nullptr;  // bias of the tile's classes, or null
  bool clamp = false;           // whether logits are clamped to [-1, 1], for cosines
  float scale = 1;
  // Changes that the loss makes to the logits of a class, except in rows whose target it is: logits above `filter`
  // become 0, and corrections[class] is added to the scaled logit. Infinity for `filter` and null for `corrections`
  // change nothing.
  float filter = __builtin_inff();
  const float* corrections = nullptr;

  bool changes_logits() const { return filter < __builtin_inff() || corrections != nullptr; }
};

// The statistics of the rows of a tile over a class block. Every plane has one element for each row.
struct HeadTileStats {
  float* max = nullptr;    // max of z
  float* sum = nullptr;    // sum of exp(z - max)
  float* total = nullptr;  // sum of the logits after the loss has changed them; null without smoothing
  int64_t top_k = 0;
  float* best = nullptr;  // [top_k] planes, best first; equal logits are in ascending order of class
  int32_t* best_class = nullptr;
  int64_t plane = 0;  // distance between the planes of `best`, in elements
  const int32_t* label = nullptr;
  const float* target = nullptr;  // the label's logit after the margin
};

struct HeadTileGradient {
  const float* max = nullptr;
  const float* factor = nullptr;  // inverse sum · scale · row weight; 0 for rows without a target and for padding
  // The term that smoothing adds to every gradient of the row, <= 0; 0 where `factor` is 0.
  const float* smooth = nullptr;
};

struct HeadKernels {
  bool pairs = false;
  void (*gemm)(const HeadGemm& call) = nullptr;
  void (*pack_classes)(const HeadPackClasses& call) = nullptr;
  // Adds the bias to the logits z of a tile and clamps them, then adds strips of 64 classes in ascending order to the
  // statistics. Changes z.
  void (*add_stats)(const HeadTile& tile, const HeadTileStats& stats) = nullptr;
  // Replaces z by d(objective)/d(logit), computed as if no row had its target in the tile.
  void (*gradient)(const HeadTile& tile, const HeadTileGradient& rows) = nullptr;
  // Packs the gradient z as bf16 for two products: as left side of dW in place, [class][rows / 2], and as left side of
  // dX in `pairs`, [classes / 2][pairs_stride]. Classes after those of the tile up to a multiple of 32 become zeros.
  // Null in tables without pairs.
  void (*pack_gradient)(const HeadTile& tile, uint32_t* pairs, int64_t pairs_stride) = nullptr;
  // Sums the gradients of each class over rows in sixteen lanes: lanes[class][16] += z[class][row], rows ascending. The
  // lane of a row is (row mod row_block) mod 16, where the first row of the tile is row `first_row`.
  void (*sum_rows)(const HeadTile& tile, int64_t first_row, int64_t row_block, float* lanes) = nullptr;
  void (*add)(float* to, const float* from, int64_t n) = nullptr;  // adds n elements; n is a multiple of 16
  // Copies past the caches. `to` is aligned to 64, n is a multiple of 16. Other threads see the copy only after a store
  // fence.
  void (*stream)(float* to, const float* from, int64_t n) = nullptr;
  // Returns 1 / max(norm of w, kHeadEpsilon).
  float (*inverse_norm)(const float* w, int64_t dim) = nullptr;
  // Replaces the gradient g of a direction w · inverse by the gradient of the class weight w: g = inverse · (g - (g ·
  // direction) direction).
  void (*project)(float* g, const float* w, float inverse, int64_t dim) = nullptr;
};

// Returns the table for an instruction set. If the processor has no bf16 units, bf16 operands are rounded to bf16 and
// computed in f32.
const HeadKernels& head_kernels(Isa isa, bool bf16);

// The tables; each is defined in a source file of its own.
extern const HeadKernels kHeadAvx2;
extern const HeadKernels kHeadAvx512;
extern const HeadKernels kHeadAvx512Bf16;
extern const HeadKernels kHeadAmx;

}  // namespace xrun::ops
