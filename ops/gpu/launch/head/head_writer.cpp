// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/launch/head/head_writer.h"

namespace xrun::ops::gpu {
namespace {

GpuArgument state(GpuHeadOperand first, int index, int64_t bytes) { return in(static_cast<int>(first) + index, bytes); }
const GpuArgument kNull = null_address();

// The HeadRule of head_update (ops/gpu/head/head_rows.cu).
uint32_t rule_of(const OptimizerForm& form) {
  return form.kind == OptimizerKind::kAdamw ? 3 : form.states == 0 ? 0 : form.nesterov ? 2 : 1;
}

}  // namespace

void HeadWriter::prepare_rows(bool labels) {
  list_.rows("head_rows", "head_rows_" + list_.features() + "_" + list_.operands(), all_.rows_padded,
             operand(kFeatures), address_if(labels, operand(kLabels)), scratch(at_.rows), inverses(),
             scratch(at_.labels), shape_.rows, shape_.norm_rows, all_.row_block_padded, all_.rows_padded, shape_.dim,
             all_.dim_padded, shape_.blocks.classes);
  list_.store_nodes(scratch(at_.nodes));
}

void HeadWriter::forward_piece(int piece, const GpuArgument& slots) {
  const ClassRange classes = open(piece);
  const int64_t count = classes.size(), blocks = pieces_of(count, shape_.blocks.size), slot = list_.stats_slot();
  for (const GpuHeadRows& rows : layout_.chunks) {
    const GpuArgument z = logits(piece, rows, true);
    const GpuArgument out = after(slots, rows.first_place * 4);
    list_.blocks("head_stats", blocks, rows.places, z, plane(at_.labels, rows), plane(at_.targets, rows),
                 plane(at_.psi, rows, 8), out, slot, all_.rows_padded, count, shape_.blocks.size, rows.places,
                 classes.begin, list_.scale(), list_.filter(), shape_.margin.smoothing > 0 ? 1U : 0U);
    list_.blocks("head_best", shape_.top_k == 0 ? 0 : blocks, rows.places, z, out, slot, all_.rows_padded, count,
                 shape_.blocks.size, rows.places, classes.begin, shape_.top_k);
  }
}

void HeadWriter::sweep_piece(const GpuHeadSweep& what, int piece, const GpuArgument& slots) {
  const ClassRange classes = open(piece);
  const int64_t count = classes.size(), lanes = count * kThreadsOfRow;
  const bool sums_lanes = what.weights() && shape_.form.bias;
  if (sums_lanes) {
    list_.each("finite", "fill_f32", lanes, scratch(at_.lanes), lanes, 0.0F);
  }
  for (const GpuHeadRows& rows : layout_.chunks) {
    const GpuArgument z = logits(piece, rows, pass_ == HeadPass::kUpdate || piece >= layout_.kept_pieces);
    add_gradient(what, classes, rows, z, address_if(sums_lanes, scratch(at_.lanes)));
    if (what.dx) {
      add_dx(classes, rows, after(slots, rows.first_place * all_.dim_padded * 4));
    }
    if (what.weights()) {
      list_.product("dw", HeadList::tiles_of(count) * HeadList::tiles_of(all_.dim_padded), scratch(at_.gradient),
                    operand_row(rows), scratch(at_.weight_gradient), count, rows.places,
                    shape_.bf16 ? rows.places : rows.rows, all_.dim_padded, rows.first_place == 0 ? 0U : 1U);
    }
  }
  if (what.weights()) {
    finish(what, classes);
  }
}

ClassRange HeadWriter::open(int piece) {
  const ClassRange classes = layout_.pieces[static_cast<size_t>(piece)];
  list_.rows("head_rows", "head_classes_" + list_.weights() + "_" + list_.operands(), classes.size(), weight(classes),
             class_inverses(classes), scratch(at_.classes), classes.size(), shape_.dim, all_.dim_padded);
  return classes;
}

GpuArgument HeadWriter::logits(int piece, const GpuHeadRows& rows, bool compute) {
  const ClassRange classes = layout_.pieces[static_cast<size_t>(piece)];
  const int64_t count = classes.size();
  const bool kept = pass_ != HeadPass::kUpdate && piece < layout_.kept_pieces;
  const GpuArgument z = kept ? operand(kLogits, (index_of(classes) * all_.rows_padded + count * rows.first_place) * 4)
                             : scratch(at_.logits);
  if (compute) {
    list_.product("logits", HeadList::tiles_of(count) * HeadList::tiles_of(rows.places), scratch(at_.classes),
                  operand_row(rows), bias(classes), z, count, rows.places, all_.dim_padded,
                  shape_.form.cosine ? 1U : 0U);
  }
  list_.each("head_margins", "head_targets", rows.places, z, plane(at_.labels, rows), plane(at_.targets, rows), count,
             rows.places, classes.begin);
  list_.margin({.targets = plane(at_.targets, rows),
                .labels = plane(at_.labels, rows),
                .psi = plane(at_.psi, rows, 8),
                .slope = plane(at_.slope, rows, 8),
                .nodes = scratch(at_.nodes),
                .values = scratch(at_.values)},
               rows.places, classes);
  return z;
}

void HeadWriter::add_gradient(const GpuHeadSweep& what, ClassRange classes, const GpuHeadRows& rows,
                              const GpuArgument& z, const GpuArgument& lanes) {
  const MarginForm& form = shape_.margin;
  const int64_t count = classes.size();
  list_.each("head_gradient", "head_row_values", rows.places, operand(kSoftmax, rows.first_row * kHeadSoftmaxRow),
             address_if(what.factors, operand(kFactors, rows.first_row * 4)), plane(at_.labels, rows),
             plane(at_.psi, rows, 8), plane(at_.slope, rows, 8), plane(at_.maxima, rows), plane(at_.factors, rows),
             plane(at_.smooths, rows), plane(at_.target_gradient, rows), plane(at_.steep, rows), rows.rows,
             shape_.norm_rows, all_.row_block_padded, rows.places, classes.begin, count, shape_.blocks.classes,
             form.scale, form.smoothing, shape_.row_weight);
  list_.each("head_gradient", "head_gradient_" + list_.operands(), kThreadsOfRow * count, z, scratch(at_.gradient),
             plane(at_.labels, rows), plane(at_.maxima, rows), plane(at_.factors, rows), plane(at_.smooths, rows),
             plane(at_.target_gradient, rows), lanes, count, all_.row_block_padded, rows.places, classes.begin,
             list_.scale(), list_.filter());
}

void HeadWriter::add_dx(ClassRange classes, const GpuHeadRows& rows, const GpuArgument& out) {
  const int64_t count = classes.size(), slot = all_.rows_padded * all_.dim_padded, size = shape_.blocks.size;
  const int64_t tiles = HeadList::tiles_of(rows.places) * HeadList::tiles_of(all_.dim_padded);
  list_.product("dx", pieces_of(count, size) * tiles, scratch(at_.gradient), scratch(at_.classes), out, count, size,
                rows.places, all_.dim_padded, slot);
  if (steep()) {
    list_.rows("head_gradient", "head_steep_dx_" + list_.features() + "_" + list_.weights(), rows.places,
               features_of(rows), weight(classes), class_inverses(classes), inverses(rows.first_place),
               plane(at_.labels, rows), plane(at_.targets, rows), plane(at_.steep, rows), out, slot, classes.begin,
               count, size, rows.rows, shape_.norm_rows, all_.row_block_padded, rows.places, shape_.dim,
               all_.dim_padded, shape_.bf16 ? 1U : 0U);
  }
}

void HeadWriter::finish(const GpuHeadSweep& what, ClassRange classes) {
  const int64_t count = classes.size(), dim = shape_.dim, dims = all_.dim_padded;
  const GpuArgument dw = scratch(at_.weight_gradient);
  if (steep()) {
    list_.rows("head_gradient", "head_steep_dw_" + list_.features() + "_" + list_.weights(), all_.rows_padded,
               operand(kFeatures), weight(classes), inverses(), scratch(at_.labels), scratch(at_.targets),
               scratch(at_.steep), dw, classes.begin, count, shape_.rows, shape_.norm_rows, all_.row_block_padded,
               all_.rows_padded, dim, dims, shape_.bf16 ? 1U : 0U);
  }
  if (shape_.form.cosine || what.squares) {
    list_.rows("head_rows", "head_project_" + list_.weights(), count, weight(classes), class_inverses(classes), dw,
               squares_if(what.squares), count, dim, dims);
  }
  add_squares(what.squares, kWeightSquares, classes);
  if (what.gradients) {
    list_.each("layout", "copy_columns_32", count * dim, dw, operand(kWeightGradient, index_of(classes) * dim * 4),
               count, dim, dims, dim);
  }
  if (what.update != nullptr) {
    const auto states = [&](int i, bool exists) {
      return address_if(exists, state(kWeightStates, i, index_of(classes) * dim * element_bytes(shape_.states)));
    };
    add_update("head_update_" + list_.weights() + "_" + list_.states(), *what.update, operand(kWeightScalars),
               weight(classes), dw, states, class_inverses(classes), classes, dim, dims);
  }
  if (shape_.form.bias) {
    finish_bias(what, classes);
  }
}

void HeadWriter::finish_bias(const GpuHeadSweep& what, ClassRange classes) {
  const int64_t count = classes.size();
  const GpuArgument gradient =
      what.gradients ? operand(kBiasGradient, index_of(classes) * 4) : scratch(at_.bias_gradient);
  list_.each("head_gradient", "head_bias_gradient", count, scratch(at_.lanes), gradient, squares_if(what.squares),
             count);
  add_squares(what.squares, kBiasSquares, classes);
  if (what.update != nullptr) {
    const auto states = [&](int i, bool exists) {
      return address_if(exists, state(kBiasStates, i, index_of(classes) * 4));
    };
    add_update("head_update_f32_f32", *what.update, operand(kBiasScalars), bias(classes), gradient, states, kNull,
               classes, 1, 1);
  }
}

void HeadWriter::add_squares(bool exists, GpuHeadOperand out, ClassRange classes) {
  const int64_t first = index_of(classes) / shape_.blocks.size;
  list_.rows("head_rows", "head_block_squares", exists ? pieces_of(classes.size(), shape_.blocks.size) : 0,
             scratch(at_.squares), operand(out, first * 8), classes.size(), shape_.blocks.size);
}

void HeadWriter::add_update(std::string kernel, const GpuHeadRule& by, const GpuArgument& scalars,
                            const GpuArgument& rows, const GpuArgument& gradient,
                            const std::function<GpuArgument(int, bool)>& states, const GpuArgument& norms,
                            ClassRange classes, int64_t dim, int64_t stride) {
  const OptimizerForm& form = by.form;
  list_.rows("head_rows", std::move(kernel), classes.size(), rule_of(form), scalars,
             address_if(by.reads_scale, operand(kGradScale)), of_call(GpuArgument::Kind::kFlags), rows, gradient,
             states(0, form.states > 0), states(1, form.states > 1), states(form.states, form.ema > 0), norms,
             classes.size(), dim, stride, classes.begin, of_call(GpuArgument::Kind::kSeed),
             of_call(GpuArgument::Kind::kStep), static_cast<float>(1 - form.ema));
}

}  // namespace xrun::ops::gpu
