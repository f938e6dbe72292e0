// Writes pieces and comments in the order of the file: spaces, indentation, blank lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lang/format/pieces.h"
#include "lang/text/token.h"

namespace xrun::lang {

// A comment is written before the piece that follows it in the file. If the comment and the text before it share a line
// in the file, they also share a line in the output; otherwise the comment gets its own line.
class Writer {
 public:
  Writer(const Tokens& tokens, const Pieces& pieces, std::string& out) : tokens_(tokens), pieces_(pieces), out_(out) {}

  // Writes the piece, after the comments before it and its space. If there are comments, the piece starts a line with
  // the indentation `indent`.
  void piece(size_t at, int indent);
  // Writes a text that is not in the file, directly after the last text: the comma after the last item of a broken
  // list.
  void text(std::string_view text);
  void spaces(int count);

  // Continues on a new line with this indentation.
  void new_line(int indent);
  // Writes the comments before the byte `offset`, and then starts a new line if there were any. `keeps_blank`: blank
  // lines before them are kept, as between statements.
  void comments(uint32_t offset, int indent, bool keeps_blank);
  // Writes the comment before the byte `offset` if it is on the line of the last piece. A documentation comment in that
  // place is not written: it belongs to the next declaration.
  void comment_behind(uint32_t offset, int indent);
  // Writes an empty line, unless a brace was opened last; the next piece starts a line.
  void blank_line();
  // Whether the file has an empty line between the last text and the byte `offset`.
  bool blank_before(uint32_t offset) const;
  void open_braces() { is_opened_ = true; }

  // Continues at another place of the file: after the byte `end`; `comment` is the number of the next comment.
  void go_to(uint32_t end, size_t comment);
  uint32_t end() const { return end_; }
  size_t next_comment() const { return comment_; }

  // Column in the current line; the indentation if nothing is written on it.
  int column() const { return is_fresh_ ? indent_ : column_; }
  bool has_text() const { return !is_fresh_; }  // in the current line

 private:
  void put(std::string_view text, int width);
  bool is_on_line(const Comment& comment) const;

  const Tokens& tokens_;
  const Pieces& pieces_;
  std::string& out_;
  uint32_t end_ = 0;  // end of the last text, in the file
  size_t comment_ = 0;
  int column_ = 0;
  int indent_ = 0;
  bool is_fresh_ = true;    // nothing is written on the current line
  bool is_opened_ = false;  // a brace was opened on the previous line
};

}  // namespace xrun::lang
