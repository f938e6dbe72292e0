#include "ops/catalog.h"

#include <vector>

namespace xrun::ops {
namespace {

std::vector<const Op*> list_all() {
  std::vector<const Op*> all{
      // dense
      &kEmbed, &kEmbedGrad, &kEmbedBag, &kEmbedBagGrad, &kLinear, &kLinearDx, &kLinearDw, &kBiasGrad,
      // convolution
      &kConv, &kDwconv, &kConvDx, &kConvDw, &kDeconv, &kDeconvDx,
      // norm
      &kLayerNorm, &kLayerNormGrad, &kRmsNorm, &kRmsNormGrad, &kGroupNorm, &kGroupNormGrad, &kBatchNorm,
      &kBatchNormGrad, &kBatchNormAdd, &kBatchNormPrelu, &kBatchNormPreluGrad, &kStateUpdate,
      // regularization
      &kDropout, &kDropPath,
      // pooling
      &kGlobalAvgPool, &kGlobalAvgPoolGrad,
      // other operators with files of their own
      &kAttention, &kAttentionGrad, &kAttentionRelative, &kPrelu, &kPreluGrad,
      // metrics of all samples
      &kRecallAt, &kVerification};
  for (const auto family :
       {product_ops(), pool_ops(), sequence_ops(), softmax_ops(), reduce_ops(), pointwise_ops(), arithmetic_ops(),
        map_ops(), sum_ops(), layout_ops(), cast_ops(), head_ops(), row_loss_ops()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

}  // namespace

std::span<const Op* const> catalog() {
  static const std::vector<const Op*> all = list_all();
  return all;
}

const OpRegistry& registry() {
  static const OpRegistry view = [] {
    std::vector<const OpDef*> defs;
    for (const Op* op : catalog()) {
      defs.push_back(&op->def);
    }
    return OpRegistry(std::move(defs));
  }();
  return view;
}

const Op* find_op(std::string_view name) {
  for (const Op* op : catalog()) {
    if (op->def.name == name) {
      return op;
    }
  }
  return nullptr;
}

}  // namespace xrun::ops
