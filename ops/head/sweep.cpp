// The backward sweep over a shard's tiles: logits again, their gradient, and from it dX, dW and the update at once.
#include <algorithm>
#include <cmath>

#include "ops/head.h"
#include "ops/head/kernels.h"
#include "ops/head/margin.h"
#include "ops/head/rows.h"
#include "ops/head/tree_fold.h"
#include "ops/head/work.h"
#include "ops/simd.h"

namespace xrun::ops {

// Outputs of a sweep that are not wanted are null.
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

// z of the tile becomes G in the form of both products. `weights_too`: the bias gradient is wanted as well.
void tile_gradient(const HeadWork& pass, const HeadSlice& slice, const HeadTile& tile, int64_t row, bool weights_too) {
  const MarginForm& form = pass.shape.margin;
  float* target = pass.plane(kTarget) + row;
  pass.for_targets(tile, row, [&](int64_t i, float x, float*) {
    const Margin margin = margin_of(form, x);
    const int64_t source = row_at(pass.shape, pass.layout, row + i);
    const RowSoftmax& softmax = pass.rows.softmax[source];
    const double p = std::exp(form.scale * margin.psi - static_cast<double>(softmax.max)) * softmax.inverse_sum;
    const double g = target_gradient(form, static_cast<double>(pass.shape.classes), p) * pass.row_weight(source);
    target[i] = static_cast<float>(g);
    pass.plane(kSteep)[row + i] = static_cast<float>(g * (margin.slope - 1));
    pass.plane(kCosine)[row + i] = x;
  });
  pass.kernels.gradient(
      tile, {.max = pass.plane(kMax) + row, .factor = pass.plane(kFactor) + row, .smooth = pass.plane(kSmooth) + row});
  pass.for_targets(tile, row, [&](int64_t i, float, float* z) { *z = target[i]; });
  if (weights_too && pass.weights.bias != nullptr) {
    pass.kernels.sum_rows(tile, row, pass.layout.row_block_padded, slice.bias_lanes);
  }
  if (pass.kernels.pairs) {
    pass.kernels.pack_gradient(tile, slice.pairs, pass.logits_stride());
  }
}

// partial[row ..] (+)= G · W
void add_dx(const HeadWork& pass, const HeadSlice& slice, const HeadTile& tile, int64_t row, bool add, float* partial) {
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
                     .add = add});
}

// weight_gradient (+)= Gᵀ · X
void add_dw(const HeadWork& pass, const HeadSlice& slice, const HeadTile& tile, int64_t row) {
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
                     .add = row > 0});
}

// A margin multiplies the target's gradient by its slope, which is large where x and w are almost parallel; what is
// left of such a product behind the normalisation is the small part across. The sums take the gradient with slope 1,
// and the rest, g · (slope - 1), comes here with the part along already taken out, in f64: the rounding of a large
// product that cancels later would be larger than all other errors. `dx`, `dw`: null or where the sums are.
void add_steep(const HeadWork& pass, const HeadTile& tile, int64_t row, float* dx, float* dw) {
  const HeadShape& shape = pass.shape;
  if (!shape.form.cosine || !shape.margin.angular()) {
    return;
  }
  const auto operand = [&](float x, float inverse, double exact) {
    return shape.bf16 ? static_cast<double>(to_float(to_bf16(x * inverse))) : x * exact;
  };
  const int32_t* label = pass.labels() + row;
  for (int64_t i = 0; i < tile.rows; ++i) {
    const int64_t inside = label[i] - tile.first_class;
    if (inside < 0 || inside >= tile.classes || pass.plane(kSteep)[row + i] == 0) {
      continue;
    }
    const double g = pass.plane(kSteep)[row + i];
    const double cosine = pass.plane(kCosine)[row + i];
    const int64_t source = row_at(shape, pass.layout, row + i);
    const int64_t local = label[i] - shape.shard.begin;
    const float* w = pass.weights.weight + local * shape.dim;
    double squares = 0;
    for (int64_t d = 0; d < shape.dim; ++d) {
      squares += static_cast<double>(w[d]) * w[d];
    }
    const double w_inverse = 1 / std::max(std::sqrt(squares), static_cast<double>(kHeadEpsilon));
    const double x_inverse = exact_inverse_norm_of_row(shape, pass.rows.features, source);
    for (int64_t d = 0; d < shape.dim; ++d) {
      const float x = feature_at(shape, pass.rows.features, source, d);
      if (dx != nullptr) {
        const double across = operand(w[d], pass.weights.prepared[local], w_inverse) - cosine * x * x_inverse;
        dx[(row + i) * pass.layout.dim_padded + d] += static_cast<float>(g * across);
      }
      if (dw != nullptr) {
        const double across = operand(x, static_cast<float>(x_inverse), x_inverse) - cosine * w[d] * w_inverse;
        dw[inside * pass.layout.dim_padded + d] += static_cast<float>(g * across);
      }
    }
  }
}

// Bias gradients of a tile from their sixteen running sums, by a fixed tree.
void fold_lanes(const float* lanes, int64_t classes, float* out) {
  for (int64_t c = 0; c < classes; ++c) {
    out[c] = sum_lanes(load(lanes + c * kLanes));
  }
}

float* offset(float* p, int64_t n) { return p == nullptr ? nullptr : p + n; }

// Weights of the tile's classes by their complete gradient, and their prepared form.
void update_tile(const HeadWork& pass, Isa isa, const HeadSlice& slice, const HeadUpdate& by, int64_t local,
                 int64_t classes, const float* bias_gradient) {
  const int64_t dim = pass.shape.dim;
  for (int64_t c = 0; c < classes; ++c) {
    float* w = pass.weights.weight + (local + c) * dim;
    update(isa, by.form, by.weight, w, slice.weight_gradient + c * pass.layout.dim_padded,
           offset(by.weight_states[0], (local + c) * dim), offset(by.weight_states[1], (local + c) * dim), dim);
    if (pass.shape.form.cosine) {
      pass.weights.prepared[local + c] = pass.kernels.inverse_norm(w, dim);
    }
  }
  if (pass.weights.bias != nullptr) {
    update(isa, by.form, by.bias, pass.weights.bias + local, bias_gradient, offset(by.bias_states[0], local),
           offset(by.bias_states[1], local), classes);
  }
}

}  // namespace

void HeadPasses::sweep(const HeadRows& rows, const HeadWeights& weights, const Sweep& what, std::byte* scratch,
                       Workers& workers) const {
  if (layout_.subtrees.empty()) {
    return;
  }
  const HeadWork pass(shape_, layout_, *kernels_, what.pass, rows, weights, scratch);
  pass.prepare_rows(workers);
  const int64_t first_block = layout_.blocks.begin;

  const auto finish_weights = [&](const HeadSlice& slice, TileClasses tile, int64_t block) {
    const int64_t local = tile.begin - shape_.shard.begin;
    const bool bias = weights.bias != nullptr;
    float bias_gradient[kHeadTileClasses] = {};
    if (bias) {
      fold_lanes(slice.bias_lanes, tile.count, bias_gradient);
    }
    for (int64_t c = 0; c < tile.count; ++c) {
      float* g = slice.weight_gradient + c * layout_.dim_padded;
      if (shape_.form.cosine) {
        kernels_->project(g, weights.weight + (local + c) * shape_.dim, weights.prepared[local + c], shape_.dim);
      }
      if (what.weight_squares != nullptr) {
        what.weight_squares[block - first_block] += sum_of_squares(isa_, g, shape_.dim);
      }
      if (what.weight_gradient != nullptr) {
        std::copy_n(g, shape_.dim, what.weight_gradient + (local + c) * shape_.dim);
      }
    }
    if (bias && what.bias_squares != nullptr) {
      what.bias_squares[block - first_block] += sum_of_squares(isa_, bias_gradient, tile.count);
    }
    if (bias && what.bias_gradient != nullptr) {
      std::copy_n(bias_gradient, tile.count, what.bias_gradient + local);
    }
    if (what.update != nullptr) {
      update_tile(pass, isa_, slice, *what.update, local, tile.count, bias_gradient);
    }
  };

  const auto sweep_block = [&](const HeadSlice& slice, int64_t block, float* dx) {
    if (what.weight_squares != nullptr) {
      what.weight_squares[block - first_block] = 0;
    }
    if (what.bias_squares != nullptr) {
      what.bias_squares[block - first_block] = 0;
    }
    bool first = true;
    for_tiles(shape_, layout_, block, [&](TileClasses classes) {
      pass.pack_tile(slice, classes, dx != nullptr);
      std::fill_n(slice.bias_lanes, classes.count * 16, 0.0F);
      for_row_runs(layout_, [&](int64_t row, int64_t count) {
        const HeadTile tile = pass.logits(slice, classes, row, count);
        tile_gradient(pass, slice, tile, row, what.wants_weights());
        if (dx != nullptr) {
          add_dx(pass, slice, tile, row, !first, dx);
        }
        if (what.wants_weights()) {
          add_dw(pass, slice, tile, row);
        }
        add_steep(pass, tile, row, dx, what.wants_weights() ? slice.weight_gradient : nullptr);
      });
      first = false;
      if (what.wants_weights()) {
        finish_weights(slice, classes, block);
      }
    });
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
