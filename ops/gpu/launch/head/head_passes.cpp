// Passes go through the pieces of the shard and, within a piece, through the chunks of the rows. The slots of the class
// blocks of a piece are merged level by level, and the results of pieces in the order of HeadFold.
// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/launch/head/head_passes.h"

#include "graph/base/check.h"
#include "ops/gpu/launch/head/head_writer.h"

namespace xrun::ops::gpu {

GpuHeadPasses::GpuHeadPasses(const HeadShape& shape, GpuTarget target)
    : shape_(shape), layout_(gpu_head_layout(shape)), target_(target) {
  XRUN_CHECK(shape.active == 0 && shape.untouched == Untouched::kAsIs && !shape.f16, "GPUs have no such heads");
  XRUN_CHECK(shape.weights != RowFormat::kFp8 && shape.states != RowFormat::kFp8, "GPUs have no fp8 rows");
  XRUN_CHECK(shape.features == DType::kF32 || (shape.features == DType::kBF16 && shape.bf16),
             "features have the type of the products, or f32");
}

std::vector<GpuLaunch> GpuHeadPasses::prepare() const {
  HeadList list(shape_, layout_.all, target_);
  if (shape_.form.cosine) {
    list.rows("head_rows", "head_norms_" + list.weights(), shape_.shard.size(), operand(GpuHeadOperand::kWeight),
              operand(GpuHeadOperand::kInverses), shape_.shard.size(), shape_.dim);
  }
  return list.take();
}

std::vector<GpuLaunch> GpuHeadPasses::forward(bool labels) const {
  HeadWriter writer(shape_, layout_, target_, HeadPass::kForward);
  writer.prepare_rows(labels);
  writer.fold_pieces(
      GpuHeadOperand::kStats, writer.list().stats_slot(),
      [&](int piece, const GpuArgument& slots) { writer.forward_piece(piece, slots); },
      [&](const auto&... arguments) { writer.list().merge_stats(arguments...); });
  return writer.list().take();
}

std::vector<GpuLaunch> GpuHeadPasses::sweep(const GpuHeadSweep& what) const {
  XRUN_CHECK(what.update == nullptr || what.update->form.kind != OptimizerKind::kOwn, "class rows have no such update");
  HeadWriter writer(shape_, layout_, target_, what.pass);
  writer.prepare_rows(true);
  if (!what.dx) {
    for (size_t piece = 0; piece < layout_.pieces.size(); ++piece) {
      writer.sweep_piece(what, static_cast<int>(piece), null_address());
    }
    return writer.list().take();
  }
  writer.fold_pieces(
      GpuHeadOperand::kDx, layout_.all.rows_padded * layout_.all.dim_padded,
      [&](int piece, const GpuArgument& slots) { writer.sweep_piece(what, piece, slots); },
      [&](const auto&... arguments) { writer.merge_dx(arguments...); });
  return writer.list().take();
}

std::vector<GpuLaunch> GpuHeadPasses::backward(bool factors, const GpuHeadRule* update) const {
  return sweep({.pass = HeadPass::kBackward, .factors = factors, .dx = true, .update = update});
}

std::vector<GpuLaunch> GpuHeadPasses::update(bool factors, const GpuHeadRule& by) const {
  return sweep({.factors = factors, .update = &by});
}

std::vector<GpuLaunch> GpuHeadPasses::gradient_norms(bool factors) const {
  return sweep({.factors = factors, .squares = true});
}

std::vector<GpuLaunch> GpuHeadPasses::gradients(bool factors) const {
  return sweep({.factors = factors, .gradients = true});
}

}  // namespace xrun::ops::gpu
