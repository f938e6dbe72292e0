// Arguments of windows, which are one number for both directions of an image or a pair: k=3, k=[1, 7].
#pragma once

#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/types/attr.h"

namespace xrun::ops {

// A size along the height and one along the width of an image.
struct Extents {
  int64_t h = 0;
  int64_t w = 0;
  bool operator==(const Extents&) const = default;

  int64_t area() const { return h * w; }
};

// Returns "3" if both sizes are equal, else "1 x 7".
std::string to_text(const Extents& extents);

// Returns the argument, which is a whole number or a list of two. REQUIRES: it is of this kind, or it is absent and
// `otherwise` is given.
Extents extents_of(const Attrs& attrs, std::string_view name);
Extents extents_of(const Attrs& attrs, std::string_view name, Extents otherwise);
// Returns the argument as it is written in the language: one number if both sizes are equal.
AttrValue to_attr(const Extents& extents);

// Returns an error unless both sizes are in [low, high]; in the second function each size has its own range.
Status expect_range(std::string_view op, std::string_view argument, const Extents& value, int64_t low, int64_t high);
Status expect_range(std::string_view op, std::string_view argument, const Extents& value, int64_t low,
                    const Extents& high);

}  // namespace xrun::ops
