#include "ops/head/work.h"

#include <limits>

#include "ops/head/rows.h"
#include "ops/head/select_classes.h"

namespace xrun::ops {

void HeadWork::prepare_rows(Workers& workers) const {
  workers.for_each(layout.rows_padded / kHeadStep, [&](int64_t panel, int) {
    const int64_t begin = panel * kHeadStep;
    pack_rows(shape, layout, kernels.pairs, rows.features, begin, begin + kHeadStep, part<uint32_t>(at.logit_rows),
              at.gradient_rows < at.row_values ? part<uint32_t>(at.gradient_rows) : nullptr);
    for (int64_t place = begin; place < begin + kHeadStep; ++place) {
      const int64_t row = row_at(shape, layout, place);
      const int32_t label = row >= 0 && rows.labels != nullptr ? rows.labels[row] : -1;
      labels()[place] = rows.active == nullptr ? label : number_of(*rows.active, shape, label);
      plane(kTarget)[place] = 0;
      if (rows.softmax == nullptr) {
        continue;
      }
      const bool has_target = label >= 0 && label < shape.blocks.classes;
      const double scale = has_target ? shape.margin.scale * row_weight(row) : 0;
      plane(kMax)[place] = row >= 0 ? rows.softmax[row].max : 0;
      plane(kFactor)[place] = row >= 0 ? static_cast<float>(rows.softmax[row].inverse_sum * scale) : 0;
      plane(kSmooth)[place] = static_cast<float>(-shape.margin.smoothing / classes_of_loss() * scale);
    }
  });
}

void HeadWork::pack_tile(const HeadSlice& slice, const ClassTile& tile, bool for_dx) const {
  kernels.pack_classes({.weight = tile.weight,
                        .inverse = tile.inverse,
                        .classes = tile.classes.count,
                        .dim = shape.dim,
                        .dim_padded = layout.dim_padded,
                        .round = shape.bf16  ? HeadRounding::kBf16
                                 : shape.f16 ? HeadRounding::kF16
                                             : HeadRounding::kNone,
                        .rows = finds(tile.classes) ? nullptr : slice.logit_weights,
                        .rows_stride = steps(layout.dim_padded) + kHeadSkew,
                        .panels = for_dx ? slice.gradient_weights : nullptr,
                        .panel_steps = steps(layout.tile_classes)});
}

HeadTile HeadWork::logits(const HeadSlice& slice, const ClassTile& tile, int64_t row, int64_t count,
                          HeadPrefetch* prefetch) const {
  const float* const corrections = rows.active == nullptr ? nullptr : rows.active->corrections;
  const HeadTile logits{.z = slice.logits,
                        .stride = logits_stride(),
                        .classes = tile.classes.count,
                        .rows = count,
                        .first_class = tile.classes.begin,
                        .bias = tile.bias,
                        .clamp = shape.form.cosine,
                        .scale = static_cast<float>(shape.margin.scale),
                        .filter = shape.margin.filter < 1 ? static_cast<float>(shape.margin.filter)
                                                          : std::numeric_limits<float>::infinity(),
                        .corrections = corrections == nullptr ? nullptr : corrections + tile.classes.begin};
  if (finds(tile.classes)) {
    kept.fetch(logits, row);
    return logits;
  }
  const int64_t k = steps(layout.dim_padded);
  kernels.gemm({.m = tile.classes.count,
                .panels = count / kHeadStep,
                .k = k,
                .a = slice.logit_weights,
                .a_m = k + kHeadSkew,
                .a_k = 1,
                .b = part<uint32_t>(at.logit_rows) + row * k,
                .b_panel = k * kHeadStep,
                .c = slice.logits,
                .c_m = logits_stride(),
                .add = false,
                .prefetch = prefetch});
  if (kind == HeadPass::kForward && kept.has(tile.classes)) {
    kept.keep(logits, row, kernels);
  }
  return logits;
}

}  // namespace xrun::ops
