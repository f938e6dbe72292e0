// The stage rand_augment: operations that are drawn for each sample, all with one magnitude.
// Source: Cubuk, Zoph, Shlens, Le, "RandAugment: Practical Automated Data Augmentation with a Reduced Search Space",
// NeurIPS 2020; operations and strengths are those of torchvision.transforms.RandAugment with 31 magnitudes.
#pragma once

#include "graph/base/random.h"
#include "graph/base/result.h"
#include "runtime/data/augment/augment.h"
#include "runtime/data/pictures/picture.h"

namespace xrun::runtime {

// The operations, in torchvision's order. Strengths grow evenly with the magnitude m of 0 to 30:
//   shear x, y         by ± 0.3 · m/30, around the upper left corner     posterize  8 - round(m / 7.5) bits stay
//   translate x, y     by ± 150/331 · m/30 of the side, whole pixels     solarize   from 255 - 8.5 · m on, 255 - x
//   rotate             by ± m degrees                                    identity, autocontrast, equalize  without
//   brightness, color, contrast, sharpness   factors 1 ± 0.9 · m/30
enum class AugmentOp {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};
inline constexpr int kAugmentOps = 14;
inline constexpr int kMostMagnitude = 30;

// Applies one operation to a picture of whole numbers of 0 to 255, with Pillow's result, bit for bit; geometric
// operations take the nearest pixel. `negative` turns the sign of strengths that have one. `other` is working memory.
void apply(AugmentOp op, int magnitude, bool negative, float fill, Picture& picture, Picture& other);

// Rounds the pixels to whole numbers, and applies `step.size` operations of magnitude `step.extra`. Operation i and its
// sign are the draws below(2 · i, 14) and below(2 · i + 1, 2) of the stage's stream.
Status run_rand_augment(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);

}  // namespace xrun::runtime
