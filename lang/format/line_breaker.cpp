// Breaks a statement in four steps, each of which is tried only if the result of the one before it is too long:
//   1. write starts a new line before each arrow where the author has broken the line.
//   2. line starts a new line before every arrow of such a line.
//   3. segment breaks brackets from the left (brackets); items writes as many items on a line as fit.
//   4. segment starts a new line after a binary operator if the operand then fits.
// The widths of all pieces are known in advance (Pieces::width), so each test of a fit takes constant time, except with
// forced line breaks.
// Tests: tests/lang/format/format_test.cpp
#include "lang/format/line_breaker.h"

namespace xrun::lang {
namespace {

constexpr int kIndent = 2;

}  // namespace

void LineBreaker::write_flat(size_t a, size_t b, int indent) {
  for (size_t i = a; i < b; ++i) {
    if (!pieces_[i].is_spare) {
      writer_.piece(i, indent);
    }
  }
}

void LineBreaker::write(size_t a, size_t b, int indent, int behind) {
  size_t begin = a;
  for (size_t i = a; i < b; i = pieces_.next(i)) {
    if (i > a && pieces_[i].starts_segment) {
      line(begin, i, begin == a ? indent : indent + kIndent, 0);
      writer_.comments(pieces_[i].begin, indent + kIndent, false);
      writer_.new_line(indent + kIndent);
      begin = i;
    }
  }
  line(begin, b, begin == a ? indent : indent + kIndent, behind);
}

// Writes one line of a pipeline as the author has broken it. If it is too long, it is broken before each arrow.
void LineBreaker::line(size_t a, size_t b, int indent, int behind) {
  if (fits(a, b, indent, behind)) {
    segment(a, b, indent, behind);
    return;
  }
  size_t begin = a;
  int own = indent;
  // Lines after the first are indented by two more spaces. If the pieces begin with an arrow, `indent` includes them.
  const int below = pieces_[a].kind == TokenKind::kArrow ? indent : indent + kIndent;
  for (size_t i = a; i < b; i = pieces_.next(i)) {
    if (i > a && pieces_[i].kind == TokenKind::kArrow) {
      segment(begin, i, own, 0);
      writer_.comments(pieces_[i].begin, below, false);
      writer_.new_line(below);
      begin = i;
      own = below;
    }
  }
  segment(begin, b, own, behind);
}

// Whether the pieces fit if the only line breaks are the forced ones.
bool LineBreaker::fits(size_t a, size_t b, int indent, int behind) const {
  if (!pieces_.must_break(a, b)) {
    return fits_flat(a, b, behind);
  }
  int column = writer_.column();
  for (size_t i = a; i < b;) {
    const size_t next = pieces_.next(i);
    const Piece& piece = pieces_[i];
    const bool starts_line = i > a && pieces_.must_break(i - 1, i + 1);
    column = starts_line ? indent + kIndent : column + (piece.space ? 1 : 0);
    if (pieces_.must_break(i, next)) {
      if (column + piece.width > kLineWidth) {
        return false;
      }
      column = indent + pieces_[piece.partner].width;
    } else {
      column += pieces_.width(i, next);
    }
    if (column > kLineWidth) {
      return false;
    }
    i = next;
  }
  return column + behind <= kLineWidth;
}

bool LineBreaker::fits_flat(size_t a, size_t b, int behind) const {
  const bool space = pieces_[a].space && writer_.has_text();
  return writer_.column() + (space ? 1 : 0) + pieces_.width(a, b) + behind <= kLineWidth;
}

// The end of the first part of [a, b) that is broken only inside brackets.
size_t LineBreaker::chunk_end(size_t a, size_t b) const {
  size_t end = pieces_.next(a);
  while (end < b && !pieces_[end].may_start_line) {
    end = pieces_.next(end);
  }
  return end;
}

// The columns from the end of the bracket at `close` to the next place where the line may be broken.
int LineBreaker::columns_behind(size_t close, size_t b, int behind) const {
  int columns = 0;
  for (size_t i = close + 1; i < b; ++i) {
    if (pieces_[i].may_start_line) {
      return columns;
    }
    columns += pieces_[i].width + (pieces_[i].space ? 1 : 0);
    if (pieces_[i].bracket != Bracket::kNone) {
      return columns;
    }
  }
  return columns + behind;
}

// Writes the pieces [a, b), broken only inside brackets and after operators, but before no arrow.
void LineBreaker::segment(size_t a, size_t b, int indent, int behind) {
  if (!pieces_.must_break(a, b) && fits_flat(a, b, behind)) {
    write_flat(a, b, indent + kIndent);
    return;
  }
  for (size_t i = a; i < b;) {
    const Piece& piece = pieces_[i];
    if (i > a && piece.may_start_line) {
      const size_t end = chunk_end(i, b);
      const int rest = end == b ? behind : 0;
      const bool fits_below =
          !pieces_.must_break(i, end) && indent + kIndent + pieces_.width(i, end) + rest <= kLineWidth;
      if (fits_below && !fits_flat(i, end, rest)) {
        writer_.comments(piece.begin, indent + kIndent, false);
        writer_.new_line(indent + kIndent);
      }
    }
    const size_t next = pieces_.next(i);
    if (next > i + 1 && piece.partner > i + 1 &&
        (pieces_.must_break(i, next) || !fits_flat(i, next, columns_behind(piece.partner, b, behind)))) {
      brackets(i, indent);
    } else {
      write_flat(i, next, indent + kIndent);
    }
    i = next;
  }
}

void LineBreaker::brackets(size_t open, int indent) {
  const size_t close = pieces_[open].partner;
  const int inner = indent + kIndent;
  writer_.piece(open, inner);
  writer_.comment_behind(pieces_[open + 1].begin, inner);
  writer_.new_line(inner);
  if (has_commas(pieces_[open].bracket)) {
    items(open, inner);
  } else {
    writer_.comments(pieces_[open + 1].begin, inner, false);
    write(open + 1, close, inner, 0);
  }
  writer_.comments(pieces_[close].begin, inner, false);
  writer_.new_line(indent);
  writer_.piece(close, inner);
}

// Writes as many items on a line as fit. An item that takes several lines, or a pipe of a fork, shares its lines with
// no other item.
void LineBreaker::items(size_t open, int indent) {
  const Bracket bracket = pieces_[open].bracket;
  const size_t close = pieces_[open].partner;
  bool has_own_lines = true;  // whether the next item starts a new line
  for (size_t i = open + 1; i < close;) {
    size_t end = i;
    while (end < close && pieces_[end].kind != TokenKind::kComma) {
      end = pieces_.next(end);
    }
    const bool is_last = end + 1 >= close;
    const int comma = is_last && !may_end_in_comma(bracket) ? 0 : 1;
    const bool is_long =
        bracket == Bracket::kPipes || pieces_.must_break(i, end) || indent + pieces_.width(i, end) + comma > kLineWidth;
    writer_.comments(pieces_[i].begin, indent, false);
    if (has_own_lines || is_long || !fits_flat(i, end, comma)) {
      writer_.new_line(indent);
    }
    write(i, end, indent, comma);
    if (comma > 0) {
      writer_.text(",");
    }
    has_own_lines = is_long;
    i = end + 1;
  }
}

}  // namespace xrun::lang
