// Finds fonts of this system by the stems of their file names.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/result.h"

namespace xrun::runtime {

// "NotoSansCJK-Regular:2" is face 2, counted from 0, of the collection NotoSansCJK-Regular.ttc.
struct FontFace {
  std::string name;  // the name as written in the model
  std::string path;
  int face = 0;
};

// Finds a font file with the stem in `name` below the system's font folders, then the user's: the first in byte order
// of paths in the first folder that has such a file. Errors: XG0411 (kWorld) the font is missing (with its Debian
// package, if known); XG0413 the face number is not a number.
Result<FontFace> find_font(std::string_view name);

// The Debian package that contains a font file of this stem; "" if unknown.
std::string_view package_of_font(std::string_view stem);

}  // namespace xrun::runtime
