// The cells of the windows in which attention works, for the processor and for kernels of GPUs.
#pragma once

#include "ops/simd/lane_math.h"

namespace xrun::ops {

// A grid of height x width cells, row by row, is divided into windows of rows x columns cells and moved cyclically.
// Windows are numbered row by row of the grid, and the tokens of a window row by row of the window.
template <typename Index>
struct WindowCells {
  XRUN_INLINE Index count() const { return (height / rows) * (width / columns); }
  XRUN_INLINE Index tokens() const { return rows * columns; }
  XRUN_INLINE bool is_whole() const { return count() == 1; }
  XRUN_INLINE bool is_shifted() const { return down > 0 || right > 0; }
  // Returns the number of different offsets of a key from a query: (2 rows - 1) (2 columns - 1).
  XRUN_INLINE Index offsets() const { return (2 * rows - 1) * (2 * columns - 1); }
  // Returns the index of the offset of token `key` from token `query`.
  XRUN_INLINE Index offset(Index query, Index key) const {
    return (key / columns - query / columns + rows - 1) * (2 * columns - 1) + key % columns - query % columns +
           columns - 1;
  }

  // Returns the position in the sequence of token `token` of window `window`.
  XRUN_INLINE Index position(Index window, Index token) const {
    const Cell cell = cell_of(window, token);
    return (cell.row + down) % height * width + (cell.column + right) % width;
  }
  // Returns the region of a token in its window. A shift can bring tokens from opposite sides of the grid into one
  // window; they then have different regions and do not attend to one another.
  XRUN_INLINE Index region(Index window, Index token) const {
    const Cell cell = cell_of(window, token);
    return (down > 0 && cell.row >= height - down ? 1 : 0) + (right > 0 && cell.column >= width - right ? 2 : 0);
  }

  Index height = 1, width = 1;  // size of the grid, in cells
  Index rows = 1, columns = 1;  // size of a window, in cells
  Index down = 0, right = 0;    // distances of the cyclic shift, in cells

 private:
  struct Cell {
    Index row, column;
  };
  XRUN_INLINE Cell cell_of(Index window, Index token) const {
    const Index across = width / columns;
    return {window / across * rows + token / columns, window % across * columns + token % columns};
  }
};

}  // namespace xrun::ops
