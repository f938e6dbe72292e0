// Arguments of windows that are one number for both directions of an image, or two: k=3, k=[1, 7].
#pragma once

#include <string>
#include <string_view>

#include "graph/attr.h"
#include "graph/base/result.h"

namespace xrun::ops {

// Sizes along the height and along the width of an image.
struct Extents {
  int64_t h = 0;
  int64_t w = 0;
  bool operator==(const Extents&) const = default;

  int64_t area() const { return h * w; }
};

// "3" if both are equal, else "1 x 7".
std::string to_text(const Extents& extents);

// The argument, a whole number or a list of two. REQUIRES: it has this kind, or is absent and `otherwise` is given.
Extents extents_of(const Attrs& attrs, std::string_view name);
Extents extents_of(const Attrs& attrs, std::string_view name, Extents otherwise);
// The argument in the form of the language: one number if both are equal.
AttrValue to_attr(const Extents& extents);

// Errors unless both numbers lie in [low, high]; in the second overload, each in its own range.
Status expect_range(std::string_view op, std::string_view argument, const Extents& value, int64_t low, int64_t high);
Status expect_range(std::string_view op, std::string_view argument, const Extents& value, int64_t low,
                    const Extents& high);

}  // namespace xrun::ops
