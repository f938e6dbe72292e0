// Tests: tests/runtime/data/augment/transform_test.cpp
#include "runtime/data/augment/picture_stages.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/data/augment/decode_stage.h"
#include "runtime/data/augment/jitter.h"

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

struct Rectangle {
  int64_t top, left, height, width;
  PictureBox box() const {
    return {static_cast<double>(top), static_cast<double>(left), static_cast<double>(height),
            static_cast<double>(width)};
  }
};

// Draws the rectangle of a random_resized_crop. If no attempt fits, returns the largest square in the middle.
Rectangle draw_rectangle(const PictureSize& picture, double least, const RandomStream* stream) {
  constexpr uint64_t kAttempts = 10;
  constexpr uint64_t kDraws = 4;
  const int64_t h = picture.height;
  const int64_t w = picture.width;
  for (uint64_t i = 0; stream != nullptr && i < kAttempts; ++i) {
    const auto uniform = [&](uint64_t draw) { return static_cast<double>(stream->uniform(i * kDraws + draw)); };
    const double area = static_cast<double>(h * w) * (least + (1 - least) * uniform(0));
    const double ratio = std::exp((2 * uniform(1) - 1) * std::log(4.0 / 3.0));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio)));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (width >= 1 && height >= 1 && width <= w && height <= h) {
      return {static_cast<int64_t>(stream->below(i * kDraws + 2, static_cast<uint64_t>(h - height) + 1)),
              static_cast<int64_t>(stream->below(i * kDraws + 3, static_cast<uint64_t>(w - width) + 1)), height, width};
    }
  }
  const int64_t side = std::min(h, w);
  return {middle(h - side), middle(w - side), side, side};
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
  const RandomStream stream = stream_of(step, key);
  const Rectangle r = draw_rectangle(size, static_cast<double>(step.a[0]), key.training ? &stream : nullptr);
  return take_part(scratch, r.box(), step.size, step.size);
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

Status run_noise(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training) {
    load_picture(scratch);
    add_noise(scratch.picture, step.a[0], stream_of(step, key), scratch.draws);
  }
  return {};
}

}  // namespace xrun::runtime
