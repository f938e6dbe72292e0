// Declares the operators, grouped by the files that define them. Each of these files begins with the formulas of its
// operators and the papers they come from.
#pragma once

#include <span>

#include "ops/op.h"

namespace xrun::ops {

extern const Op kEmbed, kEmbedGrad;                // embed.cpp
extern const Op kEmbedBag, kEmbedBagGrad;          // embed_bag.cpp
extern const Op kLinear, kLinearDx, kLinearDw;     // linear.cpp
extern const Op kBiasGrad;                         // sum over all dimensions but the channels, for linear and conv
extern const Op kConv, kDwconv, kConvDx, kConvDw;  // conv.cpp
extern const Op kDeconv, kDeconvDx;                // deconv.cpp
extern const Op kLayerNorm, kLayerNormGrad, kRmsNorm, kRmsNormGrad;                               // layer_norm.cpp
extern const Op kGroupNorm, kGroupNormGrad;                                                       // group_norm.cpp
extern const Op kBatchNorm, kBatchNormGrad, kBatchNormAdd, kBatchNormPrelu, kBatchNormPreluGrad;  // batch_norm*.cpp
extern const Op kRecallAt;                                                                        // recall_op.cpp
extern const Op kVerification;                                                                    // verification_op.cpp
extern const Op kStateUpdate;                                                                     // state_update.cpp
extern const Op kConcat, kSlice, kSliceGrad, kSplit, kPad, kPadGrad;  // slices.cpp, in layout_ops
extern const Op kDropout, kDropPath;                                  // dropout.cpp
extern const Op kGlobalAvgPool, kGlobalAvgPoolGrad;                   // global_pool.cpp
extern const Op kAttention, kAttentionGrad, kAttentionRelative;       // attention.cpp
extern const Op kPrelu, kPreluGrad;                                   // prelu.cpp

// Families of operators; each is defined in the source file of its name.
std::span<const Op* const> arithmetic_ops();
std::span<const Op* const> map_ops();
std::span<const Op* const> sum_ops();
std::span<const Op* const> cast_ops();
std::span<const Op* const> head_ops();
std::span<const Op* const> layout_ops();
std::span<const Op* const> pointwise_ops();
std::span<const Op* const> pool_ops();
std::span<const Op* const> product_ops();  // einsum.cpp
std::span<const Op* const> reduce_ops();
std::span<const Op* const> row_loss_ops();  // row_losses.cpp
std::span<const Op* const> sequence_ops();
std::span<const Op* const> softmax_ops();

}  // namespace xrun::ops
