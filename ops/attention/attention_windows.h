// Divides a sequence [N, T, D] into the windows in which attention works. The T positions are the cells of a grid, row
// by row; a window is a rectangle of rows x columns cells. A cyclic shift of the grid moves the windows. Source: Liu et
// al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", ICCV 2021.
#pragma once

#include <cstdint>

#include "graph/base/result.h"
#include "graph/types/attr.h"

namespace xrun::ops {

// Windows are numbered row by row of the grid, and the tokens of a window row by row of the window.
struct Windows {
  // Returns the windows that the attributes `window`, `shift` and `height` describe for t positions. Without `window`
  // the whole grid is one window. If a side of the grid is not larger than `window`, the window covers that side and is
  // not shifted along it. Errors: XG0301, XG0303.
  static Result<Windows> of(int64_t t, const Attrs& attrs);

  int64_t count() const { return (height / rows) * (width / columns); }
  int64_t tokens() const { return rows * columns; }
  bool is_whole() const { return count() == 1; }
  bool is_shifted() const { return down > 0 || right > 0; }
  // Returns the number of different offsets of a key from a query: (2 rows - 1) (2 columns - 1).
  int64_t offsets() const { return (2 * rows - 1) * (2 * columns - 1); }

  // Returns the position in the sequence of token `token` of window `window`.
  int64_t position(int64_t window, int64_t token) const {
    const Cell cell = cell_of(window, token);
    return (cell.row + down) % height * width + (cell.column + right) % width;
  }
  // Returns the region of a token in its window. A shift can bring tokens from opposite sides of the grid into one
  // window; they then have different regions and do not attend to one another.
  int64_t region(int64_t window, int64_t token) const {
    const Cell cell = cell_of(window, token);
    return (down > 0 && cell.row >= height - down ? 1 : 0) + (right > 0 && cell.column >= width - right ? 2 : 0);
  }

  int64_t height = 1, width = 1;  // size of the grid, in cells
  int64_t rows = 1, columns = 1;  // size of a window, in cells
  int64_t down = 0, right = 0;    // distances of the cyclic shift, in cells

 private:
  struct Cell {
    int64_t row, column;
  };
  Cell cell_of(int64_t window, int64_t token) const {
    const int64_t across = width / columns;
    return {window / across * rows + token / columns, window % across * columns + token % columns};
  }
};

}  // namespace xrun::ops
