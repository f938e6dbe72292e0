// The windows of attention over a grid of positions: rows x columns positions each, moved by a cyclic shift. Positions
// of a sequence [N, T, D] are the cells of a grid, row by row. Source: Liu et al., "Swin Transformer: Hierarchical
// Vision Transformer using Shifted Windows", ICCV 2021.
#pragma once

#include <cstdint>

#include "graph/attr.h"
#include "graph/base/result.h"

namespace xrun::ops {

// Window w is at row w / (width / columns) of the windows; its tokens are its positions, row by row.
struct Windows {
  // The windows that the attributes `window`, `shift` and `height` describe for t positions. Without `window` there is
  // one, the whole grid; a side of the grid that is not larger than `window` is one window, which is not shifted.
  // Errors: XG0301, XG0303.
  static Result<Windows> of(int64_t t, const Attrs& attrs);

  int64_t count() const { return (height / rows) * (width / columns); }
  int64_t tokens() const { return rows * columns; }
  bool is_whole() const { return count() == 1; }
  bool is_shifted() const { return down > 0 || right > 0; }
  // The number of places of a key relative to a query: (2 rows - 1) (2 columns - 1).
  int64_t offsets() const { return (2 * rows - 1) * (2 * columns - 1); }

  // The position in the sequence of a token of a window.
  int64_t position(int64_t window, int64_t token) const {
    const Cell cell = cell_of(window, token);
    return (cell.row + down) % height * width + (cell.column + right) % width;
  }
  // Tokens of a window that a shift brought together from opposite sides of the grid have different regions, and do not
  // attend to one another.
  int64_t region(int64_t window, int64_t token) const {
    const Cell cell = cell_of(window, token);
    return (down > 0 && cell.row >= height - down ? 1 : 0) + (right > 0 && cell.column >= width - right ? 2 : 0);
  }

  int64_t height = 1, width = 1;  // size of the grid
  int64_t rows = 1, columns = 1;  // size of a window
  int64_t down = 0, right = 0;    // offsets of the shift

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
