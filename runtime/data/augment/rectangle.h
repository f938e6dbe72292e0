// Random rectangles of a picture, for random_resized_crop and random_erasing.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/base/random.h"
#include "graph/base/result.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {

struct Rectangle {
  int64_t top, left, height, width;
  bool operator==(const Rectangle&) const = default;
};

// The distribution of rectangles: the share of the picture is uniform in [least, most], and the logarithm of width over
// height is uniform in [log(narrow), log(wide)].
struct RectangleShape {
  double least, most;
  double narrow, wide;
};

// Draws a rectangle with at most `width` columns and `height` rows in a picture of that size; nullopt if ten attempts
// give none. Sides are rounded half to even, the place is uniform, as in torchvision.
//   margin  the number of columns and of rows that the rectangle leaves free at least
std::optional<Rectangle> draw_rectangle(int64_t height, int64_t width, const RectangleShape& shape, int64_t margin,
                                        const RandomStream& stream);

// The stage random_erasing, as torchvision.transforms.RandomErasing.
Status run_erasing(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);

}  // namespace xrun::runtime
