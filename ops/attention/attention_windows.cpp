#include "ops/attention/attention_windows.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/shape.h"

namespace xrun::ops {
namespace {

// Returns the number of rows of a grid of t positions: the attribute `height`; without it, the side of a square if
// there are windows, otherwise 1.
Result<int64_t> height_of(int64_t t, const Attrs& attrs) {
  if (attrs.has("height")) {
    const int64_t height = attrs.integer("height");
    XRUN_TRY(expect_range("attention", "height", height, 1, t));
    if (t % height != 0) {
      return shape_error(
          "`attention` cannot lay " + std::to_string(t) + " positions out in " + std::to_string(height) + " rows",
          "let `height` divide the positions");
    }
    return height;
  }
  if (!attrs.has("window")) {
    return int64_t{1};
  }
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(t))));
  if (side * side != t) {
    return shape_error(
        "`attention` with windows takes a square number of positions, and " + std::to_string(t) + " is not one",
        "give the rows of the grid, height=" + std::to_string(std::max<int64_t>(1, side)) +
            "; height=1 makes windows of a sequence");
  }
  return side;
}

}  // namespace

Result<Windows> Windows::of(int64_t t, const Attrs& attrs) {
  XRUN_ASSIGN(const int64_t height, height_of(t, attrs));
  Windows made;
  made.height = height;
  made.width = t / height;
  const int64_t window = attrs.integer("window", t);
  const int64_t shift = attrs.integer("shift", 0);
  XRUN_TRY(expect_range("attention", "window", window, 1, 1 << 20));
  XRUN_TRY(expect_range("attention", "shift", shift, 0, window - 1));
  made.rows = std::min(window, made.height);
  made.columns = std::min(window, made.width);
  if (made.height % made.rows != 0 || made.width % made.columns != 0) {
    return shape_error("`attention` cannot cut " + std::to_string(made.height) + " x " + std::to_string(made.width) +
                           " positions into windows of " + std::to_string(made.rows) + " x " +
                           std::to_string(made.columns),
                       "let `window` divide both sides of the grid");
  }
  made.down = made.rows < made.height ? shift : 0;
  made.right = made.columns < made.width ? shift : 0;
  return made;
}

}  // namespace xrun::ops
