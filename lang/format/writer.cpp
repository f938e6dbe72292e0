#include "lang/format/writer.h"

#include <algorithm>

namespace xrun::lang {

void Writer::put(std::string_view text, int width) {
  if (is_fresh_) {
    out_.append(static_cast<size_t>(indent_), ' ');
    column_ = indent_;
    is_fresh_ = false;
  }
  is_opened_ = false;
  out_ += text;
  column_ += width;
}

void Writer::piece(size_t at, int indent) {
  const Piece& piece = pieces_[at];
  if (comment_ < tokens_.comments.size() && tokens_.comments[comment_].begin < piece.begin) {
    comments(piece.begin, indent, false);
  }
  if (is_fresh_) {
    put(pieces_.text(piece), piece.width);
  } else {
    out_.append(" ", piece.space ? 1 : 0);
    out_.append(pieces_.text(piece));
    column_ += piece.width + (piece.space ? 1 : 0);
  }
  end_ = piece.end;
}

void Writer::text(std::string_view text) { put(text, static_cast<int>(text.size())); }

void Writer::spaces(int count) { put(std::string(static_cast<size_t>(count), ' '), count); }

void Writer::new_line(int indent) {
  if (!is_fresh_) {
    out_ += '\n';
  }
  is_fresh_ = true;
  indent_ = indent;
}

void Writer::blank_line() {
  new_line(indent_);
  if (!is_opened_ && !out_.empty() && !out_.ends_with("\n\n")) {
    out_ += '\n';
  }
}

bool Writer::blank_before(uint32_t offset) const {
  const std::string_view gap = tokens_.text.substr(end_, std::max(end_, offset) - end_);
  return std::ranges::count(gap, '\n') > 1;
}

bool Writer::is_on_line(const Comment& comment) const {
  const std::string_view gap = tokens_.text.substr(end_, comment.begin - end_);
  return end_ > 0 && gap.find('\n') == std::string_view::npos;
}

void Writer::comments(uint32_t offset, int indent, bool keeps_blank) {
  for (; comment_ < tokens_.comments.size() && tokens_.comments[comment_].begin < offset; ++comment_) {
    const Comment& comment = tokens_.comments[comment_];
    const std::string_view text = tokens_.text.substr(comment.begin, comment.end - comment.begin);
    if (!is_fresh_ && is_on_line(comment)) {
      put("  ", 2);
    } else {
      const bool blank = keeps_blank && blank_before(comment.begin);
      new_line(indent);
      if (blank) {
        blank_line();
      }
    }
    put(text, count_code_points(text));
    end_ = comment.end;
    new_line(indent);
  }
}

void Writer::comment_behind(uint32_t offset, int indent) {
  const bool was_opened = is_opened_;
  if (comment_ < tokens_.comments.size() && !is_fresh_) {
    const Comment& comment = tokens_.comments[comment_];
    if (comment.begin < offset && !comment.is_doc && is_on_line(comment)) {
      comments(comment.end, indent, false);
    }
  }
  is_opened_ = was_opened;
}

void Writer::go_to(uint32_t end, size_t comment) {
  end_ = end;
  comment_ = comment;
}

}  // namespace xrun::lang
