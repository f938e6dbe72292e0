#include "runtime/data/augment/rectangle.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace xrun::runtime {
namespace {

// Draws that do not belong to an attempt are far from those of the attempts.
constexpr uint64_t kChance = uint64_t{1} << 20;
constexpr uint64_t kNoise = uint64_t{1} << 24;

}  // namespace

std::optional<Rectangle> draw_rectangle(int64_t height, int64_t width, const RectangleShape& shape, int64_t margin,
                                        const RandomStream& stream) {
  constexpr uint64_t kAttempts = 10;
  constexpr uint64_t kDraws = 4;
  const double narrow = std::log(shape.narrow);
  const double wide = std::log(shape.wide);
  for (uint64_t i = 0; i < kAttempts; ++i) {
    const auto uniform = [&](uint64_t draw) { return static_cast<double>(stream.uniform(i * kDraws + draw)); };
    const double area = static_cast<double>(height * width) * (shape.least + (shape.most - shape.least) * uniform(0));
    const double ratio = std::exp(narrow + (wide - narrow) * uniform(1));
    const auto w = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio)));
    const auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (w >= 1 && h >= 1 && w <= width - margin && h <= height - margin) {
      return Rectangle{static_cast<int64_t>(stream.below(i * kDraws + 2, static_cast<uint64_t>(height - h) + 1)),
                       static_cast<int64_t>(stream.below(i * kDraws + 3, static_cast<uint64_t>(width - w) + 1)), h, w};
    }
  }
  return std::nullopt;
}

Status run_erasing(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key) {
  const RandomStream stream(key.seed, key.epoch, key.sample, step.stage);
  const auto argument = [&](size_t i) { return static_cast<double>(step.a[i]); };
  if (!key.training || !(static_cast<double>(stream.uniform(kChance)) < argument(0))) {
    return {};
  }
  load_picture(scratch);
  Picture& picture = scratch.picture;
  // torchvision's ratio is height over width.
  const RectangleShape shape{argument(1), argument(2), 1 / argument(4), 1 / argument(3)};
  const auto r = draw_rectangle(picture.height(), picture.width(), shape, 1, stream);
  if (!r) {
    return {};
  }
  uint64_t drawn = kNoise;
  for (int c = 0; c < picture.channels(); ++c) {
    for (int64_t y = r->top; y < r->top + r->height; ++y) {
      const std::span<float> erased(picture.row(c, static_cast<int>(y)) + r->left, static_cast<size_t>(r->width));
      if (step.b.empty()) {
        stream.fill_normal(drawn, erased);
        drawn += erased.size();
      } else {
        std::ranges::fill(erased, step.b[step.b.size() == 1 ? 0 : static_cast<size_t>(c)]);
      }
    }
  }
  return {};
}

}  // namespace xrun::runtime
