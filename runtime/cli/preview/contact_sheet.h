// Draws pictures with their labels in rows and columns.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/cli/preview/display.h"

namespace xrun::cli {

struct SheetCell {
  ShownPicture picture;  // without pixels: an empty frame
  std::string label;
};

// The largest side of a picture in a sheet, in pixels.
inline constexpr int kLargestShown = 256;

// Draws the cells row by row, dark labels on white below the pictures. Pictures keep whole ratios: pixels of small ones
// are repeated, and those of large ones are means of squares. A label has up to three lines; the middle of a longer one
// is replaced by "..". REQUIRES: columns >= 1, at least one cell, and all pictures with pixels have the same size.
ShownPicture draw_sheet(std::span<const SheetCell> cells, int columns);

}  // namespace xrun::cli
