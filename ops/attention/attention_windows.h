// Divides a sequence [N, T, D] into the windows in which attention works. The T positions are the cells of a grid, row
// by row; a window is a rectangle of rows x columns cells. A cyclic shift of the grid moves the windows. Source: Liu et
// al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", ICCV 2021.
#pragma once

#include <cstdint>

#include "graph/base/result.h"
#include "graph/types/attr.h"
#include "ops/attention/window_cells.h"

namespace xrun::ops {

struct Windows : WindowCells<int64_t> {
  // Returns the windows that the attributes `window`, `shift` and `height` describe for t positions. Without `window`
  // the whole grid is one window. If a side of the grid is not larger than `window`, the window covers that side and is
  // not shifted along it. Errors: XG0301, XG0303.
  static Result<Windows> of(int64_t t, const Attrs& attrs);
};

}  // namespace xrun::ops
