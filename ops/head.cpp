// A pass walks tasks (aligned subtrees of class blocks) in parallel; inside a task, class block by class block; inside
// a block, tile by tile of classes; inside a tile, run by run of rows. Partial results of blocks meet on a stack that
// adds like a binary counter, which is the fixed tree over the block index.
#include "ops/head.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/base/check.h"
#include "ops/head/kernels.h"
#include "ops/head/margin.h"
#include "ops/head/rows.h"
#include "ops/head/stats.h"
#include "ops/simd.h"

namespace xrun::ops {

namespace {

// kSteep and kCosine: see add_steep.
enum RowPlane { kLabel, kTarget, kMax, kFactor, kSmooth, kSteep, kCosine };

// One worker's working memory.
struct Slice {
  uint32_t* logit_weights = nullptr;
  uint32_t* gradient_weights = nullptr;
  float* logits = nullptr;
  uint32_t* pairs = nullptr;
  float* weight_gradient = nullptr;
  float* bias_lanes = nullptr;
  std::byte* partials = nullptr;
};

// Classes [begin, begin + count) of a tile.
struct TileClasses {
  int64_t begin = 0;
  int64_t count = 0;
};

// What all workers of a pass share.
struct Pass {
  Pass(const HeadShape& of, const HeadLayout& l, const HeadKernels& k, HeadPass kind, const HeadRows& r,
       const HeadWeights& w, std::byte* scratch)
      : shape(of), layout(l), kernels(k), at(head_scratch(of, l, kind)), rows(r), weights(w), base(scratch) {}

  const HeadShape& shape;
  const HeadLayout& layout;
  const HeadKernels& kernels;
  const HeadScratch at;
  const HeadRows& rows;
  const HeadWeights& weights;
  std::byte* base;

  template <typename T>
  T* part(Bytes offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
  float* plane(RowPlane which) const { return part<float>(at.row_values) + which * layout.rows_padded; }
  int32_t* labels() const { return reinterpret_cast<int32_t*>(plane(kLabel)); }
  Slice slice(int worker) const {
    const Bytes start = at.workers + worker * at.worker_bytes;
    return {part<uint32_t>(start + at.logit_weights),
            part<uint32_t>(start + at.gradient_weights),
            part<float>(start + at.logits),
            part<uint32_t>(start + at.pairs),
            part<float>(start + at.weight_gradient),
            part<float>(start + at.class_values),
            base + start + at.partials};
  }
  // Elements of the summed dimension: f32, or pairs of bf16.
  int64_t steps(int64_t n) const { return kernels.pairs ? n / 2 : n; }
  int64_t logits_stride() const { return layout.tile_rows + kHeadSkew; }

  void prepare_rows(Workers& workers) const;
  void pack_tile(const Slice& slice, TileClasses tile, bool for_dx) const;
  HeadTile logits(const Slice& slice, TileClasses tile, int64_t row, int64_t count) const;
  float logit_of(const HeadTile& tile, int64_t row) const;
  template <typename Body>
  void for_targets(const HeadTile& tile, int64_t first_row, const Body& body) const;
};

void Pass::prepare_rows(Workers& workers) const {
  workers.for_each(layout.rows_padded / kHeadStep, [&](int64_t panel, int) {
    const int64_t begin = panel * kHeadStep;
    pack_rows(shape, layout, kernels.pairs, rows.features, begin, begin + kHeadStep, part<uint32_t>(at.logit_rows),
              at.gradient_rows < at.row_values ? part<uint32_t>(at.gradient_rows) : nullptr);
    for (int64_t place = begin; place < begin + kHeadStep; ++place) {
      const int64_t row = row_at(shape, layout, place);
      const bool real = row >= 0;
      labels()[place] = real && rows.labels != nullptr ? rows.labels[row] : -1;
      plane(kTarget)[place] = 0;
      if (rows.softmax == nullptr) {
        continue;
      }
      const double scale = shape.margin.scale * shape.row_weight;
      plane(kMax)[place] = real ? rows.softmax[row].max : 0;
      plane(kFactor)[place] = real ? static_cast<float>(rows.softmax[row].inverse_sum * scale) : 0;
      plane(kSmooth)[place] =
          real ? static_cast<float>(-shape.margin.smoothing / static_cast<double>(shape.classes) * scale) : 0;
    }
  });
}

void Pass::pack_tile(const Slice& slice, TileClasses tile, bool for_dx) const {
  const int64_t local = tile.begin - shape.shard.begin;
  kernels.pack_classes({.weight = weights.weight + local * shape.dim,
                        .inverse = shape.form.cosine ? weights.prepared + local : nullptr,
                        .classes = tile.count,
                        .dim = shape.dim,
                        .dim_padded = layout.dim_padded,
                        .round = shape.bf16,
                        .rows = slice.logit_weights,
                        .rows_stride = steps(layout.dim_padded) + kHeadSkew,
                        .panels = for_dx ? slice.gradient_weights : nullptr,
                        .panel_steps = steps(layout.tile_classes)});
}

HeadTile Pass::logits(const Slice& slice, TileClasses tile, int64_t row, int64_t count) const {
  const int64_t k = steps(layout.dim_padded);
  kernels.gemm({.m = tile.count,
                .panels = count / kHeadStep,
                .k = k,
                .a = slice.logit_weights,
                .a_m = k + kHeadSkew,
                .a_k = 1,
                .b = part<uint32_t>(at.logit_rows) + row * k,
                .b_panel = k * kHeadStep,
                .c = slice.logits,
                .c_m = logits_stride(),
                .add = false});
  return {.z = slice.logits,
          .stride = logits_stride(),
          .classes = tile.count,
          .rows = count,
          .first_class = tile.begin,
          .bias = weights.bias == nullptr ? nullptr : weights.bias + (tile.begin - shape.shard.begin),
          .clamp = shape.form.cosine,
          .scale = static_cast<float>(shape.margin.scale)};
}

// Calls body(row of the tile, its target's logit, place of it in z).
template <typename Body>
void Pass::for_targets(const HeadTile& tile, int64_t first_row, const Body& body) const {
  const int32_t* label = labels() + first_row;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const int64_t inside = label[row] - tile.first_class;
    if (inside < 0 || inside >= tile.classes) {
      continue;
    }
    float* z = tile.z + inside * tile.stride + row;
    float x = *z;
    if (tile.bias != nullptr) {
      x += tile.bias[inside];
    }
    if (tile.clamp && x == x) {
      x = std::clamp(x, -1.0F, 1.0F);
    }
    body(row, x, z);
  }
}

// Runs body(block, partial result of the block) for the blocks of a task and leaves their sum in `out`.
//   partial(i)  place of the i-th partial result on the stack; 0 is the task's own
template <typename Partial, typename Body, typename Merge>
void fold_blocks(BlockRange task, const Partial& partial, const Body& body, const Merge& merge) {
  int depth = 0;
  for (int64_t block = task.begin; block < task.end; ++block) {
    body(block, partial(depth));
    ++depth;
    for (int64_t done = block - task.begin + 1; done % 2 == 0; done /= 2) {
      --depth;
      merge(partial(depth - 1), partial(depth));
    }
  }
  for (; depth > 1; --depth) {
    merge(partial(depth - 2), partial(depth - 1));
  }
}

// Adds up the tasks of each subtree in the order of the tree; `place(i)` is the result of task i.
template <typename Place, typename Merge>
void fold_tasks(const HeadLayout& layout, const Place& place, const Merge& merge) {
  size_t begin = 0;
  for (const BlockRange& subtree : layout.subtrees) {
    size_t end = begin;
    while (end < layout.tasks.size() && layout.tasks[end].end <= subtree.end) {
      ++end;
    }
    for (size_t step = 1; step < end - begin; step *= 2) {
      for (size_t i = begin; i + step < end; i += 2 * step) {
        merge(place(i), place(i + step));
      }
    }
    begin = end;
  }
}

// Where the result of each task lies: the first of a subtree has the subtree's own place in the pass's output.
struct TaskPlaces {
  const HeadLayout& layout;
  std::byte* out;
  std::byte* others;
  Bytes bytes;

  std::byte* operator()(size_t task) const {
    size_t subtree = 0;
    while (layout.subtrees[subtree].end <= layout.tasks[task].begin) {
      ++subtree;
    }
    const bool first = layout.subtrees[subtree].begin == layout.tasks[task].begin;
    return first ? out + static_cast<Bytes>(subtree) * bytes : others + static_cast<Bytes>(task - subtree - 1) * bytes;
  }
};

// Calls body(tile) for the tiles of a class block.
template <typename Body>
void for_tiles(const HeadShape& shape, const HeadLayout& layout, int64_t block, const Body& body) {
  const int64_t size = class_block(shape.classes);
  const int64_t end = std::min(shape.shard.end, (block + 1) * size);
  for (int64_t begin = block * size; begin < end; begin += layout.tile_classes) {
    body(TileClasses{begin, std::min(layout.tile_classes, end - begin)});
  }
}

template <typename Body>
void for_row_runs(const HeadLayout& layout, const Body& body) {
  for (int64_t row = 0; row < layout.rows_padded; row += layout.tile_rows) {
    body(row, std::min(layout.tile_rows, layout.rows_padded - row));
  }
}

void add_tile_stats(const Pass& pass, const HeadTile& tile, int64_t row, const HeadStats& stats) {
  pass.for_targets(tile, row, [&](int64_t i, float x, float*) {
    stats.target()[row + i] = x;
    pass.plane(kTarget)[row + i] = static_cast<float>(margin_of(pass.shape.margin, x).psi);
  });
  pass.kernels.add_stats(tile, {.max = stats.max() + row,
                                .sum = stats.sum() + row,
                                .total = pass.shape.margin.smoothing > 0 ? stats.total() + row : nullptr,
                                .top_k = stats.top_k,
                                .best = stats.best() + row,
                                .best_class = stats.best_class() + row,
                                .plane = stats.plane,
                                .label = pass.labels() + row,
                                .target = pass.plane(kTarget) + row});
}

}  // namespace

HeadPasses::HeadPasses(const HeadShape& shape, Isa isa)
    : shape_(shape), layout_(head_layout(shape)), isa_(isa), kernels_(&head_kernels(isa, shape.bf16)) {
  XRUN_CHECK(shape.classes > 0 && shape.dim > 0 && shape.top_k >= 0 && shape.workers > 0, "a head has a shape");
}

void HeadPasses::prepare(const HeadWeights& weights, Workers& workers) const {
  if (!shape_.form.cosine) {
    return;
  }
  constexpr int64_t kRun = 1024;
  workers.for_each((shape_.shard.size() + kRun - 1) / kRun, [&](int64_t run, int) {
    for (int64_t c = run * kRun; c < std::min((run + 1) * kRun, shape_.shard.size()); ++c) {
      weights.prepared[c] = kernels_->inverse_norm(weights.weight + c * shape_.dim, shape_.dim);
    }
  });
}

void HeadPasses::forward(const HeadRows& rows, const HeadWeights& weights, std::byte* stats, std::byte* scratch,
                         Workers& workers) const {
  if (layout_.tasks.empty()) {
    return;
  }
  const HeadRows data{rows.features, rows.labels, nullptr};
  const Pass pass(shape_, layout_, *kernels_, HeadPass::kForward, data, weights, scratch);
  pass.prepare_rows(workers);
  const auto view = [&](std::byte* p) {
    return HeadStats{reinterpret_cast<float*>(p), layout_.rows_padded, shape_.top_k};
  };
  const auto join = [&](std::byte* left, std::byte* right) { merge(view(left), view(right)); };
  const TaskPlaces place{layout_, stats, scratch + pass.at.tasks, pass.at.task_bytes};
  workers.for_each(static_cast<int64_t>(layout_.tasks.size()), [&](int64_t task, int worker) {
    const Slice slice = pass.slice(worker);
    std::byte* own = place(static_cast<size_t>(task));
    const auto partial = [&](int i) { return i == 0 ? own : slice.partials + (i - 1) * pass.at.task_bytes; };
    const auto block_stats = [&](int64_t block, std::byte* out) {
      clear(view(out));
      for_tiles(shape_, layout_, block, [&](TileClasses tile) {
        pass.pack_tile(slice, tile, false);
        for_row_runs(layout_, [&](int64_t row, int64_t count) {
          add_tile_stats(pass, pass.logits(slice, tile, row, count), row, view(out));
        });
      });
    };
    fold_blocks(layout_.tasks[static_cast<size_t>(task)], partial, block_stats, join);
  });
  fold_tasks(layout_, place, join);
}

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
void tile_gradient(const Pass& pass, const Slice& slice, const HeadTile& tile, int64_t row, bool weights_too) {
  const MarginForm& form = pass.shape.margin;
  float* target = pass.plane(kTarget) + row;
  pass.for_targets(tile, row, [&](int64_t i, float x, float*) {
    const Margin margin = margin_of(form, x);
    const RowSoftmax& softmax = pass.rows.softmax[row_at(pass.shape, pass.layout, row + i)];
    const double p = std::exp(form.scale * margin.psi - static_cast<double>(softmax.max)) * softmax.inverse_sum;
    const double g = target_gradient(form, static_cast<double>(pass.shape.classes), p) * pass.shape.row_weight;
    target[i] = static_cast<float>(g);
    pass.plane(kSteep)[row + i] = static_cast<float>(g * (margin.slope - 1));
    pass.plane(kCosine)[row + i] = x;
  });
  pass.kernels.gradient(
      tile, {.max = pass.plane(kMax) + row, .factor = pass.plane(kFactor) + row, .smooth = pass.plane(kSmooth) + row});
  pass.for_targets(tile, row, [&](int64_t i, float, float* z) { *z = target[i]; });
  if (weights_too && pass.weights.bias != nullptr) {
    pass.kernels.sum_rows(tile, slice.bias_lanes);
  }
  if (pass.kernels.pairs) {
    pass.kernels.pack_gradient(tile, slice.pairs, pass.logits_stride());
  }
}

// partial[row ..] (+)= G · W
void add_dx(const Pass& pass, const Slice& slice, const HeadTile& tile, int64_t row, bool add, float* partial) {
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
void add_dw(const Pass& pass, const Slice& slice, const HeadTile& tile, int64_t row) {
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
void add_steep(const Pass& pass, const HeadTile& tile, int64_t row, float* dx, float* dw) {
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
    float sums[16];
    std::memcpy(sums, lanes + c * 16, sizeof sums);
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) {
        sums[i] += sums[i + width];
      }
    }
    out[c] = sums[0];
  }
}

double squares(const float* v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(v[i]) * v[i];
  }
  return sum;
}

float* offset(float* p, int64_t n) { return p == nullptr ? nullptr : p + n; }

// Weights of the tile's classes by their complete gradient, and their prepared form.
void update_tile(const Pass& pass, Isa isa, const Slice& slice, const HeadUpdate& by, int64_t local, int64_t classes,
                 const float* bias_gradient) {
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
  if (layout_.tasks.empty()) {
    return;
  }
  const Pass pass(shape_, layout_, *kernels_, what.pass, rows, weights, scratch);
  pass.prepare_rows(workers);
  const int64_t elements = layout_.rows_padded * layout_.dim_padded;
  const int64_t first_block = blocks_of(shape_.classes, shape_.shard).begin;

  const auto finish_weights = [&](const Slice& slice, TileClasses tile, int64_t block) {
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
        what.weight_squares[block - first_block] += squares(g, shape_.dim);
      }
      if (what.weight_gradient != nullptr) {
        std::copy_n(g, shape_.dim, what.weight_gradient + (local + c) * shape_.dim);
      }
    }
    if (bias && what.bias_squares != nullptr) {
      what.bias_squares[block - first_block] += squares(bias_gradient, tile.count);
    }
    if (bias && what.bias_gradient != nullptr) {
      std::copy_n(bias_gradient, tile.count, what.bias_gradient + local);
    }
    if (what.update != nullptr) {
      update_tile(pass, isa_, slice, *what.update, local, tile.count, bias_gradient);
    }
  };

  const auto sweep_block = [&](const Slice& slice, int64_t block, float* dx) {
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

  const auto dims = [](std::byte* p) { return reinterpret_cast<float*>(p); };
  const TaskPlaces place{layout_, what.dx, scratch + pass.at.tasks, pass.at.task_bytes};
  workers.for_each(static_cast<int64_t>(layout_.tasks.size()), [&](int64_t task, int worker) {
    const Slice slice = pass.slice(worker);
    const BlockRange blocks = layout_.tasks[static_cast<size_t>(task)];
    if (what.dx == nullptr) {
      for (int64_t block = blocks.begin; block < blocks.end; ++block) {
        sweep_block(slice, block, nullptr);
      }
      return;
    }
    std::byte* own = place(static_cast<size_t>(task));
    fold_blocks(
        blocks, [&](int i) { return i == 0 ? own : slice.partials + (i - 1) * pass.at.task_bytes; },
        [&](int64_t block, std::byte* partial) { sweep_block(slice, block, dims(partial)); },
        [&](std::byte* left, std::byte* right) { kernels_->add(dims(left), dims(right), elements); });
  });
  if (what.dx != nullptr) {
    const int64_t run = kHeadStep * layout_.dim_padded;
    workers.for_each(elements / run, [&](int64_t i, int) {
      fold_tasks(layout_, place, [&](std::byte* left, std::byte* right) {
        kernels_->add(dims(left) + i * run, dims(right) + i * run, run);
      });
    });
  }
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
