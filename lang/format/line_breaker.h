// Breaks lines that are too long: a pipeline before its arrows, then brackets from the outside, then after operators.
#pragma once

#include <cstddef>

#include "lang/format/pieces.h"
#include "lang/format/writer.h"

namespace xrun::lang {

// Writes a range of pieces of one level, such as a statement, by these rules:
//   - a pipeline starts a new line, indented by two more spaces, before each arrow where the author broke the line;
//   - if such a line does not fit, it starts a new line before each of its arrows;
//   - in a line without arrows that does not fit, brackets are broken from the left: their content is written on
//     lines of its own, as many items in a line as fit, with a comma after the last one;
//   - a line that is still too long is broken after operators. Anything longer stays as it is.
// A comment ends its line, so a comment inside brackets forces them to break.
class LineBreaker {
 public:
  LineBreaker(const Pieces& pieces, Writer& writer) : pieces_(pieces), writer_(writer) {}

  // Writes the pieces [a, b). The first one is written on the current line, whose indentation is `indent`. `behind` is
  // the number of columns that the caller will write after the last piece on its line.
  void write(size_t a, size_t b, int indent, int behind);
  // Writes the pieces in one line, whatever its length. REQUIRES: no forced break inside.
  void write_flat(size_t a, size_t b, int indent);

 private:
  void line(size_t a, size_t b, int indent, int behind);
  void segment(size_t a, size_t b, int indent, int behind);
  void brackets(size_t open, int indent);
  void items(size_t open, int indent);
  bool fits(size_t a, size_t b, int indent, int behind) const;
  bool fits_flat(size_t a, size_t b, int behind) const;
  size_t chunk_end(size_t a, size_t b) const;
  int columns_behind(size_t close, size_t b, int behind) const;

  const Pieces& pieces_;
  Writer& writer_;
};

}  // namespace xrun::lang
