// Breaks what does not fit in a line: a pipeline before its arrows, then brackets from the outside, then behind
// operators.
#pragma once

#include <cstddef>

#include "lang/format/pieces.h"
#include "lang/format/writer.h"

namespace xrun::lang {

// A range of pieces of one level, such as a statement, is written like this:
//   - a pipeline starts a new line, two spaces further in, before each arrow where the author started one;
//   - a line of it that does not fit starts a new line before each of its arrows;
//   - in a line without arrows that does not fit, brackets are broken from the left: what is between them stands on
//     lines of its own, as many items in a line as fit, with a comma behind the last one;
//   - a line that is still too long is broken behind operators. Anything longer stays as it is.
// A comment inside ends its line, so that it forces a break of the brackets around it.
class LineBreaker {
 public:
  LineBreaker(const Pieces& pieces, Writer& writer) : pieces_(pieces), writer_(writer) {}

  // Writes the pieces [a, b), the first one on the line begun, which has the indentation `indent`. `behind`: the
  // columns of what the caller writes behind the last piece.
  void write(size_t a, size_t b, int indent, int behind);
  // The same in one line, whatever its length. REQUIRES: no forced break inside.
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
