// Tests: tests/runtime/data/augment/transform_test.cpp
#include "runtime/data/augment/picture_stages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/data/augment/decode_stage.h"
#include "runtime/data/augment/jitter.h"
#include "runtime/data/augment/rectangle.h"

namespace xrun::runtime {
namespace {

RandomStream stream_of(const AugmentStep& step, const DrawKey& key) {
  return RandomStream(key.seed, key.epoch, key.sample, step.stage);
}

// Gives the scratch picture `other` the shape of the working picture, and returns it.
Picture& shaped_other(AugmentScratch& scratch) {
  const Picture& picture = scratch.picture;
  scratch.other.reshape(picture.channels(), picture.height(), picture.width());
  return scratch.other;
}

// Returns the offset of a centred square if `free` pixels are left over: half of them, rounded to even, as in
// torchvision. A negative number means padding; torchvision puts the smaller half of the padding first.
int64_t middle(int64_t free) { return free / 2 + (free > 0 && free % 4 == 3 ? 1 : 0); }

Status crop_to(const AugmentStep& step, AugmentScratch& scratch, bool random, const DrawKey& key) {
  XRUN_ASSIGN(const PictureSize size, picture_size(scratch));
  const int64_t pad = step.extra;
  const int64_t free_y = size.height + 2 * pad - step.size;
  const int64_t free_x = size.width + 2 * pad - step.size;
  if (free_y < 0 || free_x < 0) {
    XRUN_TRY(decode_whole(scratch));  // a broken file is reported as such
    return content_error("XG0404",
                         {"a picture of {} x {} is too small for a square of {}", size.height, size.width, step.size},
                         "`resize` first");
  }
  int64_t top = pad + middle(free_y - 2 * pad);
  int64_t left = pad + middle(free_x - 2 * pad);
  if (random) {
    const RandomStream stream = stream_of(step, key);
    top = static_cast<int64_t>(stream.below(0, static_cast<uint64_t>(free_y) + 1));
    left = static_cast<int64_t>(stream.below(1, static_cast<uint64_t>(free_x) + 1));
  }
  if (pad == 0) {
    const auto side = static_cast<double>(step.size);
    return take_part(scratch, {static_cast<double>(top), static_cast<double>(left), side, side}, step.size, step.size);
  }
  scratch.other.reshape(size.channels, static_cast<int>(step.size), static_cast<int>(step.size));
  crop(scratch.picture, static_cast<int>(top - pad), static_cast<int>(left - pad), scratch.other);
  std::swap(scratch.picture, scratch.other);
  return {};
}

// Returns the largest rectangle in the middle whose width over height is in [narrow, wide].
Rectangle middle_rectangle(const PictureSize& picture, double narrow, double wide) {
  const int64_t h = picture.height;
  const int64_t w = picture.width;
  const double ratio = static_cast<double>(w) / static_cast<double>(h);
  const int64_t height = ratio < narrow ? static_cast<int64_t>(std::nearbyint(static_cast<double>(w) / narrow)) : h;
  const int64_t width = ratio > wide ? static_cast<int64_t>(std::nearbyint(static_cast<double>(h) * wide)) : w;
  return {middle(h - height), middle(w - width), height, width};
}

}  // namespace

Status run_random_crop(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  return crop_to(step, scratch, key.training, key);
}
Status run_center_crop(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  return crop_to(step, scratch, false, key);
}

Status run_resized_crop(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  XRUN_ASSIGN(const PictureSize size, picture_size(scratch));
  const auto argument = [&](size_t i) { return static_cast<double>(step.a[i]); };
  const RectangleShape shape{argument(0), argument(1), argument(2), argument(3)};
  Rectangle r = middle_rectangle(size, key.training ? shape.narrow : 1, key.training ? shape.wide : 1);
  if (key.training) {
    r = draw_rectangle(size.height, size.width, shape, 0, stream_of(step, key)).value_or(r);
  }
  const PictureBox box{static_cast<double>(r.top), static_cast<double>(r.left), static_cast<double>(r.height),
                       static_cast<double>(r.width)};
  return take_part(scratch, box, step.size, step.size);
}

Status run_color_jitter(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training) {
    load_picture(scratch);
    const auto draws = stream_of(step, key).block(0);
    const auto factor = [&](size_t i) { return 1 + (2 * to_unit(draws[i]) - 1) * step.a[i]; };
    jitter(scratch.picture, factor(0), factor(1), factor(2));
  }
  return {};
}

Status run_flip(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training && stream_of(step, key).uniform(0) < 0.5f) {
    load_picture(scratch);
    flip_horizontally(scratch.picture);
  }
  return {};
}

Status run_scale_shift(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  load_picture(scratch);
  scale_shift(scratch.picture, step.a, step.b);
  return {};
}

Status run_affine(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (!key.training) {
    return {};
  }
  load_picture(scratch);
  const RandomStream stream = stream_of(step, key);
  const auto draws = stream.block(0);
  const auto more = stream.block(1);
  const auto within = [](uint32_t bits, float reach) { return (2 * to_unit(bits) - 1) * reach; };
  const float angle = within(draws[0], step.a[0]);
  const float scale_x = 1 + within(draws[1], step.a[1]);
  const float scale_y = 1 + within(draws[2], step.a[1]);
  const float shear = within(draws[3], step.a[2]);
  // A = R(angle) · [1 shear; 0 1] · diag(sx, sy), so its inverse is diag(1/sx, 1/sy) · [1 -shear; 0 1] · R(-angle).
  const float cosine = std::cos(angle);
  const float sine = std::sin(angle);
  const Affine affine{.matrix = {(cosine + shear * sine) / scale_x, (sine - shear * cosine) / scale_x, -sine / scale_y,
                                 cosine / scale_y},
                      .shift_x = within(more[0], step.a[3]) * static_cast<float>(scratch.picture.width()),
                      .shift_y = within(more[1], step.a[3]) * static_cast<float>(scratch.picture.height())};
  warp(scratch.picture, affine, shaped_other(scratch));
  std::swap(scratch.picture, scratch.other);
  return {};
}

Status run_stroke(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training) {
    load_picture(scratch);
    stroke(scratch.picture, stream_of(step, key).uniform(0, -step.a[0], step.a[0]), shaped_other(scratch));
    std::swap(scratch.picture, scratch.other);
  }
  return {};
}

Status run_blur(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (!key.training) {
    return {};
  }
  const auto draws = stream_of(step, key).block(0);
  if (to_unit(draws[0]) < step.a[0]) {
    load_picture(scratch);
    blur(scratch.picture, to_unit(draws[1]), shaped_other(scratch));
    std::swap(scratch.picture, scratch.other);
  }
  return {};
}

Status run_gaussian_blur(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (!key.training) {
    return {};
  }
  const auto draws = stream_of(step, key).block(0);
  if (!(to_unit(draws[0]) < step.a[0])) {
    return {};
  }
  load_picture(scratch);
  const auto kernel = static_cast<int>(step.size);
  if (std::min(scratch.picture.height(), scratch.picture.width()) <= kernel / 2) {
    return content_error(
        "XG0404",
        {"a picture of {} x {} is too small for `blur({})`", scratch.picture.height(), scratch.picture.width(), kernel},
        {"give a kernel of at most {}", 2 * std::min(scratch.picture.height(), scratch.picture.width()) - 1});
  }
  const float sigma = step.a[1] + (step.a[2] - step.a[1]) * to_unit(draws[1]);
  gaussian_blur(scratch.picture, kernel, sigma, shaped_other(scratch), scratch.line);
  std::swap(scratch.picture, scratch.other);
  return {};
}

Status run_torch_affine(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (!key.training) {
    return {};
  }
  load_picture(scratch);
  const RandomStream stream = stream_of(step, key);
  const auto uniform = [&](uint64_t draw, double low, double high) {
    return low + (high - low) * static_cast<double>(stream.uniform(draw));
  };
  const auto argument = [&](size_t i) { return static_cast<double>(step.a[i]); };
  constexpr double kDegree = std::numbers::pi / 180;
  const double angle = uniform(0, argument(0), argument(1)) * kDegree;
  const double most_x = argument(2) * scratch.picture.width();
  const double most_y = argument(3) * scratch.picture.height();
  const double scale = uniform(3, argument(4), argument(5));
  const double shear_x = uniform(4, argument(6), argument(7)) * kDegree;
  const double shear_y = uniform(5, argument(8), argument(9)) * kDegree;
  // The inverse of scale · R(angle) · shear: torchvision's _get_inverse_affine_matrix, whose matrix without the scale
  // has the determinant 1.
  const double a = std::cos(angle - shear_y) / std::cos(shear_y);
  const double b = -a * std::tan(shear_x) - std::sin(angle);
  const double c = std::sin(angle - shear_y) / std::cos(shear_y);
  const double d = -c * std::tan(shear_x) + std::cos(angle);
  const auto part = [&](double v) { return static_cast<float>(v / scale); };
  const Affine affine{.matrix = {part(d), part(-b), part(-c), part(a)},
                      .shift_x = static_cast<float>(std::nearbyint(uniform(1, -most_x, most_x))),
                      .shift_y = static_cast<float>(std::nearbyint(uniform(2, -most_y, most_y)))};
  const float fill = step.a[10];
  const std::array<float, 1> one{1};
  const std::array<float, 1> down{-fill};
  const std::array<float, 1> up{fill};
  if (fill != 0) {
    scale_shift(scratch.picture, one, down);
  }
  warp(scratch.picture, affine, shaped_other(scratch));
  std::swap(scratch.picture, scratch.other);
  if (fill != 0) {
    scale_shift(scratch.picture, one, up);
  }
  return {};
}

Status run_noise(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training) {
    load_picture(scratch);
    add_noise(scratch.picture, step.a[0], stream_of(step, key), scratch.draws);
  }
  return {};
}

}  // namespace xrun::runtime
