#include "runtime/data/augment/rand_augment.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "runtime/data/pictures/byte_picture.h"

namespace xrun::runtime {
namespace {

// The strength `most` · magnitude / 30 in f32, as torch.linspace computes it: from both ends towards the middle, with
// one rounding after product and sum.
double strength_of(float most, int magnitude) {
  const float step = most / kMostMagnitude;
  const bool first_half = magnitude < (kMostMagnitude + 1) / 2;
  return static_cast<double>(first_half ? step * static_cast<float>(magnitude)
                                        : std::fma(-step, static_cast<float>(kMostMagnitude - magnitude), most));
}

PointMap rotation(double degrees, const Picture& picture) {
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle);
  const double sine = std::sin(angle);
  const double x = picture.width() / 2.0;
  const double y = picture.height() / 2.0;
  return {cosine, sine, x - cosine * x - sine * y, -sine, cosine, y + sine * x - cosine * y};
}

// The map from a pixel to the point whose pixel it takes.
PointMap map_of(AugmentOp op, int magnitude, double sign, const Picture& picture) {
  constexpr float kMostShear = 0.3F;
  constexpr double kMostShift = 150.0 / 331.0;
  const auto shift = [&](int side) {
    return sign * std::trunc(strength_of(static_cast<float>(kMostShift * side), magnitude));
  };
  switch (op) {
    case AugmentOp::kShearX:
      return {1, sign * strength_of(kMostShear, magnitude), 0, 0, 1, 0};
    case AugmentOp::kShearY:
      return {1, 0, 0, sign * strength_of(kMostShear, magnitude), 1, 0};
    case AugmentOp::kTranslateX:
      return {1, 0, -shift(picture.width()), 0, 1, 0};
    case AugmentOp::kTranslateY:
      return {1, 0, 0, 0, 1, -shift(picture.height())};
    default:
      return rotation(sign * magnitude, picture);
  }
}

}  // namespace

void apply(AugmentOp op, int magnitude, bool negative, float fill, Picture& picture, Picture& other) {
  constexpr float kMostChange = 0.9F;
  const double sign = negative ? -1 : 1;
  const auto factor = static_cast<float>(1 + sign * strength_of(kMostChange, magnitude));
  switch (op) {
    case AugmentOp::kIdentity:
      return;
    case AugmentOp::kBrightness:
      return adjust_brightness(picture, factor);
    case AugmentOp::kColor:
      return adjust_color(picture, factor);
    case AugmentOp::kContrast:
      return adjust_contrast(picture, factor);
    case AugmentOp::kSharpness:
      return adjust_sharpness(picture, factor, other);
    case AugmentOp::kPosterize:
      return posterize(picture, 8 - static_cast<int>(std::nearbyint(magnitude / 7.5)));
    case AugmentOp::kSolarize:
      return solarize(picture, 255 - 8.5 * magnitude);
    case AugmentOp::kAutoContrast:
      return autocontrast(picture);
    case AugmentOp::kEqualize:
      return equalize(picture);
    default:
      other.reshape(picture.channels(), picture.height(), picture.width());
      warp_nearest(picture, map_of(op, magnitude, sign, picture), fill, other);
      std::swap(picture, other);
  }
}

Status run_rand_augment(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (!key.training) {
    return {};
  }
  load_picture(scratch);
  round_to_bytes(scratch.picture);
  const RandomStream stream(key.seed, key.epoch, key.sample, step.stage);
  for (uint64_t i = 0; i < static_cast<uint64_t>(step.size); ++i) {
    const auto op = static_cast<AugmentOp>(stream.below(2 * i, kAugmentOps));
    const bool negative = stream.below(2 * i + 1, 2) == 1;
    apply(op, static_cast<int>(step.extra), negative, step.a[0], scratch.picture, scratch.other);
  }
  return {};
}

}  // namespace xrun::runtime
