// The stages of a data binding that work on a picture, with the signature of AugmentStep::run. augment.h defines what
// each of them computes.
#pragma once

#include "graph/base/result.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {

Status run_random_crop(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_center_crop(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_resized_crop(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_color_jitter(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_flip(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_scale_shift(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_affine(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_stroke(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_blur(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
// `blur` and `affine`, with the arguments of torchvision. `run_blur` and `run_affine` are random_blur and
// random_affine.
Status run_gaussian_blur(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_torch_affine(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_noise(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);

}  // namespace xrun::runtime
