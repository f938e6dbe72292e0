// The backward sweep over the class blocks of a shard. For each tile of classes and each range of rows it
// 1. computes the logits again, or copies those that the forward pass kept,
// 2. replaces them by the gradient of the logits,
// 3. adds the products with the class weights to dX and those with the features to dW.
// After all rows of a tile, dW of its classes is complete, so they are updated at once, while they are in the caches.
// The dX partials of blocks are added in a fixed tree (ops/head/tree_fold.h). The same loop serves updates, gradient
// norms and gradient checks, which leave out dX.
// Tests: tests/ops/head/head_test.cpp, tests/ops/head/head_cases_test.cpp
#include <algorithm>
#include <cmath>

#include "ops/head/head.h"
#include "ops/head/loops/kernels.h"
#include "ops/head/margin.h"
#include "ops/head/rows.h"
#include "ops/head/steep.h"
#include "ops/head/tree_fold.h"
#include "ops/head/work.h"
#include "ops/simd/simd.h"

namespace xrun::ops {

// The results of a sweep. Outputs that are null are not computed.
struct HeadPasses::Sweep {
  HeadPass pass = HeadPass::kUpdate;
  std::byte* dx = nullptr;
  const HeadUpdate* update = nullptr;
  double* weight_squares = nullptr;
  double* bias_squares = nullptr;
  float* weight_gradient = nullptr;
  float* bias_gradient = nullptr;

  bool wants_weights() const { return update != nullptr || weight_squares != nullptr || weight_gradient != nullptr; }
};

namespace {

// Replaces the logits z of a tile by their gradient G, and packs G for both products. With `weights_too`, also sums the
// gradient of the bias.
void tile_gradient(const HeadWork& pass, const HeadSlice& slice, const HeadTile& tile, int64_t row, bool weights_too) {
  const MarginForm& form = pass.shape.margin;
  float* target = pass.plane(kTarget) + row;
  pass.for_targets(tile, row, [&](int64_t i, float x, float*) {
    const Margin margin = margin_of(form, x);
    const int64_t source = row_at(pass.shape, pass.layout, row + i);
    const RowSoftmax& softmax = pass.rows.softmax[source];
    const double p = std::exp(form.scale * margin.psi - static_cast<double>(softmax.max)) * softmax.inverse_sum;
    const double g = target_gradient(form, pass.classes_of_loss(), p) * pass.row_weight(source);
    target[i] = static_cast<float>(g);
    pass.plane(kSteep)[row + i] = static_cast<float>(g * (margin.slope - 1));
    pass.plane(kCosine)[row + i] = x;
  });
  pass.kernels.gradient(
      tile, {.max = pass.plane(kMax) + row, .factor = pass.plane(kFactor) + row, .smooth = pass.plane(kSmooth) + row});
  pass.for_targets(tile, row, [&](int64_t i, float, float* z) { *z = target[i]; });
  if (weights_too && tile.bias != nullptr) {
    pass.kernels.sum_rows(tile, row, pass.layout.row_block_padded, slice.bias_lanes);
  }
  if (pass.kernels.pairs) {
    pass.kernels.pack_gradient(tile, slice.pairs, pass.logits_stride());
  }
}

// Computes partial[row ..] = G · W or, if `add`, adds G · W to partial[row ..].
void add_dx(const HeadWork& pass, const HeadSlice& slice, const HeadTile& tile, int64_t row, bool add, float* partial,
            HeadPrefetch* prefetch) {
  const int64_t dims = pass.layout.dim_padded;
  const int64_t padded = align_up(tile.classes, kHeadStep);
  pass.kernels.gemm({.m = tile.rows,
                     .panels = dims / kHeadStep,
                     .k = pass.kernels.pairs ? padded / 2 : tile.classes,
                     .a = pass.kernels.pairs ? slice.pairs : reinterpret_cast<const uint32_t*>(tile.z),
                     .a_m = 1,
                     .a_k = tile.stride,
                     .b = slice.gradient_weights,
                     .b_panel = pass.steps(pass.layout.tile_classes) * kHeadStep,
                     .c = partial + row * dims,
                     .c_m = dims,
                     .add = add,
                     .prefetch = prefetch});
}

// Adds Gᵀ · X to the weight gradient of the tile; for the first rows it replaces the gradient.
void add_dw(const HeadWork& pass, const HeadSlice& slice, const HeadTile& tile, int64_t row, HeadPrefetch* prefetch) {
  const int64_t dims = pass.layout.dim_padded;
  pass.kernels.gemm({.m = tile.classes,
                     .panels = dims / kHeadStep,
                     .k = pass.steps(tile.rows),
                     .a = reinterpret_cast<const uint32_t*>(tile.z),
                     .a_m = tile.stride,
                     .a_k = 1,
                     .b = pass.part<uint32_t>(pass.at.gradient_rows) + pass.steps(row) * kHeadStep,
                     .b_panel = pass.steps(pass.layout.rows_padded) * kHeadStep,
                     .c = slice.weight_gradient,
                     .c_m = dims,
                     .add = row > 0,
                     .prefetch = prefetch});
}

// Adds the sixteen running sums of each class in a fixed tree, which gives the bias gradients of a tile.
void fold_lanes(const float* lanes, int64_t classes, float* out) {
  for (int64_t c = 0; c < classes; ++c) {
    out[c] = sum_lanes(load(lanes + c * kLanes));
  }
}

// Updates the weights of the tile's classes with their complete gradient. Norms of class rows that the update reads are
// 0 (docs/decisions/0023-no-trust-ratios-of-class-rows.md).
void update_tile(const HeadWork& pass, Isa isa, const HeadUpdate& by, const ClassTile& tile,
                 const float* weight_gradient, const float* bias_gradient) {
  const int64_t dim = pass.shape.dim;
  for (int64_t c = 0; c < tile.classes.count; ++c) {
    float* const weight = tile.weight + c * dim;
    const float* const gradient = weight_gradient + c * pass.layout.dim_padded;
    UpdateStates states{};
    for (size_t i = 0; i < static_cast<size_t>(by.form.kept_states()); ++i) {
      states[i] = tile.weight_states[i] + c * dim;
    }
    update(isa, by.form, by.weight, weight, gradient, states, dim);
  }
  if (tile.bias != nullptr) {
    update(isa, by.form, by.bias, tile.bias, bias_gradient, tile.bias_states, tile.classes.count);
  }
}

// Completes the gradients of a tile's classes. According to `sweep`, adds up their squares, stores or applies them.
//   block  the number of the class block, counted from the first block of the shard
template <class Sweep>
void finish_weights(const HeadWork& pass, const ClassRows& class_rows, Isa isa, const Sweep& what,
                    const HeadSlice& slice, ClassTile& tile, int64_t block) {
  const int64_t count = tile.classes.count;
  const bool bias = tile.bias != nullptr;
  float bias_gradient[kHeadTileClasses] = {};
  if (bias) {
    fold_lanes(slice.bias_lanes, count, bias_gradient);
  }
  for (int64_t c = 0; c < count; ++c) {
    float* g = slice.weight_gradient + c * pass.layout.dim_padded;
    if (pass.shape.form.cosine) {
      pass.kernels.project(g, tile.weight + c * pass.shape.dim, tile.inverse[c], pass.shape.dim);
    }
    if (what.weight_squares != nullptr) {
      what.weight_squares[block] += sum_of_squares(isa, g, pass.shape.dim);
    }
    if (what.weight_gradient != nullptr) {
      std::copy_n(g, pass.shape.dim, what.weight_gradient + class_rows.row(tile.classes.begin + c) * pass.shape.dim);
    }
  }
  if (bias && what.bias_squares != nullptr) {
    what.bias_squares[block] += sum_of_squares(isa, bias_gradient, count);
  }
  if (bias && what.bias_gradient != nullptr) {
    for (int64_t c = 0; c < count; ++c) {
      what.bias_gradient[class_rows.row(tile.classes.begin + c)] = bias_gradient[c];
    }
  }
  if (what.update != nullptr) {
    class_rows.open_states(tile, slice);
    update_tile(pass, isa, *what.update, tile, slice.weight_gradient, bias_gradient);
    class_rows.close(tile);
  }
}

}  // namespace

void HeadPasses::sweep(const HeadRows& rows, const HeadWeights& weights, const Sweep& what, std::byte* scratch,
                       Workers& workers) const {
  if (layout_.subtrees.empty()) {
    return;
  }
  const ClassRows class_rows(shape_, *kernels_, weights, what.update, rows.active);
  const HeadWork pass(shape_, layout_, *kernels_, what.pass, rows, class_rows, scratch);
  pass.prepare_rows(workers);
  const int64_t first_block = layout_.blocks.begin;

  const auto sweep_block = [&](const HeadSlice& slice, int64_t block, float* dx) {
    if (what.weight_squares != nullptr) {
      what.weight_squares[block - first_block] = 0;
    }
    if (what.bias_squares != nullptr) {
      what.bias_squares[block - first_block] = 0;
    }
    bool first = true;
    for_tiles(pass, block, [&](TileClasses of, TileClasses next) {
      ClassTile classes = class_rows.open(of, slice);
      pass.pack_tile(slice, classes, dx != nullptr);
      HeadPrefetch prefetch;
      class_rows.prefetch_states(of, prefetch);
      class_rows.prefetch_weights(next, prefetch);
      if (what.dx != nullptr) {
        pass.kept.prefetch(next, prefetch);
      }
      std::fill_n(slice.bias_lanes, of.count * 16, 0.0F);
      for_row_runs(layout_, [&](int64_t row, int64_t count) {
        const HeadTile tile = pass.logits(slice, classes, row, count, &prefetch);
        tile_gradient(pass, slice, tile, row, what.wants_weights());
        if (dx != nullptr) {
          add_dx(pass, slice, tile, row, !first, dx, &prefetch);
        }
        if (what.wants_weights()) {
          add_dw(pass, slice, tile, row, &prefetch);
        }
      });
      first = false;
      take_steep(pass, classes, dx != nullptr, what.wants_weights() ? slice.weight_gradient : nullptr);
      if (what.wants_weights()) {
        finish_weights(pass, class_rows, isa_, what, slice, classes, block - first_block);
      }
    });
    if (dx != nullptr && first) {  // the block has no active classes, so no tile has set dX
      std::fill_n(dx, layout_.rows_padded * layout_.dim_padded, 0.0F);
    }
    if (dx != nullptr) {
      add_steep(pass, block_classes(pass, block), dx);
    }
  };

  if (what.dx == nullptr) {
    workers.for_each(layout_.blocks.size(), [&](int64_t i, int worker) {
      sweep_block(pass.slice(worker), layout_.blocks.begin + i, nullptr);
    });
    return;
  }
  const auto dims = [](std::byte* p) { return reinterpret_cast<float*>(p); };
  const int64_t elements = layout_.rows_padded * layout_.dim_padded;
  TreeFold(layout_, pass.at, what.dx, scratch)
      .run(
          workers, [&](int64_t block, std::byte* dx, int worker) { sweep_block(pass.slice(worker), block, dims(dx)); },
          [&](std::byte* left, std::byte* right) { kernels_->add(dims(left), dims(right), elements); });
}

void HeadPasses::backward(const HeadRows& rows, const HeadWeights& weights, std::byte* gradient,
                          const HeadUpdate* update, std::byte* scratch, Workers& workers) const {
  sweep(rows, weights, {.pass = HeadPass::kBackward, .dx = gradient, .update = update}, scratch, workers);
}

void HeadPasses::update(const HeadRows& rows, const HeadWeights& weights, const HeadUpdate& update, std::byte* scratch,
                        Workers& workers) const {
  sweep(rows, weights, {.update = &update}, scratch, workers);
}

void HeadPasses::gradient_norms(const HeadRows& rows, const HeadWeights& weights, double* weight_squares,
                                double* bias_squares, std::byte* scratch, Workers& workers) const {
  sweep(rows, weights, {.weight_squares = weight_squares, .bias_squares = bias_squares}, scratch, workers);
}

void HeadPasses::gradients(const HeadRows& rows, const HeadWeights& weights, float* weight_gradient,
                           float* bias_gradient, std::byte* scratch, Workers& workers) const {
  sweep(rows, weights, {.weight_gradient = weight_gradient, .bias_gradient = bias_gradient}, scratch, workers);
}

}  // namespace xrun::ops
