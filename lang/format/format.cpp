// Lays out a file:
//   1. The edition line is written, and then the declarations in the order of DeclOrder, with their comments.
//   2. body writes the statements or settings between braces. Neighbouring assignments of one kind that fit on one line
//      each form a block (end_of_run), and their `=` are aligned in one column.
//   3. LineBreaker writes each statement and breaks it if it is too long.
// The layout follows the syntax tree; Writer takes the comments and blank lines from the text.
#include "lang/format/format.h"

#include <algorithm>
#include <vector>

#include "lang/format/decl_order.h"
#include "lang/format/line_breaker.h"
#include "lang/format/pieces.h"
#include "lang/format/writer.h"
#include "lang/syntax/parser.h"
#include "lang/text/faults.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

constexpr int kIndent = 2;

// The pieces [begin, end) of a statement or a setting. For a group of settings, the pieces before its brace.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t assign = 0;  // index of the `=` that is aligned; 0: no `=`
  int kind = 0;       // the `=` of neighbours of equal kinds are aligned
};

class Formatter {
 public:
  Formatter(const Tokens& tokens, const Ast& ast, const Pieces& pieces, std::string& out)
      : tokens_(tokens), ast_(ast), pieces_(pieces), writer_(tokens, pieces, out), breaker_(pieces, writer_) {}

  void run() {
    edition();
    const DeclOrder order(tokens_, ast_, writer_.end(), writer_.next_comment());
    for (const DeclOrder::Entry& entry : order.entries()) {
      if (entry.head < entry.head_end) {
        writer_.blank_line();
        writer_.go_to(entry.head_end_before, entry.head);
        writer_.comments(tokens_.comments[entry.head_end - 1].end, 0, true);
      }
      writer_.blank_line();
      writer_.go_to(entry.end_before, entry.comment);
      writer_.comments(entry.decl->keyword.begin, 0, true);
      if (writer_.blank_before(entry.decl->keyword.begin) && writer_.next_comment() > entry.comment) {
        writer_.blank_line();
      }
      declaration(*entry.decl);
      writer_.comment_behind(end_of_text(), 0);
      writer_.new_line(0);
    }
    writer_.go_to(order.end(), order.next_comment());
    writer_.comments(end_of_text(), 0, true);
    writer_.new_line(0);
  }

 private:
  uint32_t end_of_text() const { return static_cast<uint32_t>(tokens_.text.size()) + 1; }

  // Writes the line `xgraph 1` and the comments before it.
  void edition() {
    constexpr size_t kPieces = 2;
    writer_.comments(pieces_[0].begin, 0, true);
    if (writer_.next_comment() > 0 && writer_.blank_before(pieces_[0].begin)) {
      writer_.blank_line();
    }
    breaker_.write_flat(0, kPieces, 0);
    writer_.comment_behind(end_of_text(), 0);
    writer_.new_line(0);
  }

  void declaration(const Decl& decl) {
    const size_t begin = pieces_.at(decl.keyword.begin, decl.keyword.begin < pieces_[behind_].begin ? 0 : behind_);
    const size_t end = pieces_.at(decl.span.end, begin);
    behind_ = end;
    if (!has_body(decl.kind) && !has_settings(decl.kind)) {
      breaker_.write(begin, end, 0, 0);
      return;
    }
    size_t brace = begin;
    while (pieces_[brace].kind != TokenKind::kLeftBrace) {
      brace = pieces_.next(brace);
    }
    header(begin, brace, 0);
    if (has_body(decl.kind)) {
      body(decl.body, brace, 0);
    } else {
      body(decl.settings, brace, 0);
    }
  }

  // Writes the pieces before a brace and the brace itself.
  void header(size_t begin, size_t brace, int indent) {
    const bool is_empty = pieces_[brace].partner == brace + 1;
    breaker_.write(begin, brace, indent, is_empty ? 3 : 2);  // " {}", " {"
    writer_.piece(brace, indent);
  }

  // Writes the statements or settings after an opening brace, and the closing brace.
  template <class T>
  void body(Run<T> run, size_t brace, int indent) {
    const size_t close = pieces_[brace].partner;
    const int inner = indent + kIndent;
    writer_.open_braces();
    writer_.comment_behind(pieces_[brace + 1].begin, inner);
    std::vector<Range> ranges;
    for (const T& item : ast_[run]) {
      ranges.push_back(range_of(item));
    }
    for (size_t i = 0; i < ranges.size();) {
      const size_t end = end_of_run(ranges, i, inner);
      int widest = 0;
      for (size_t j = i; j < end; ++j) {
        widest = std::max(widest, name_width(ranges[j]));
      }
      for (; i < end; ++i) {
        start(ranges[i], inner);
        item(ast_[run][i], ranges[i], inner, widest);
      }
    }
    if (ranges.empty() && comments_before(brace) == comments_before(close)) {
      writer_.piece(close, indent);  // {}
      return;
    }
    writer_.comments(pieces_[close].begin, inner, true);
    writer_.new_line(indent);
    writer_.piece(close, indent);
  }

  // The number of comments before a piece.
  size_t comments_before(size_t piece) const {
    const auto& all = tokens_.comments;
    return static_cast<size_t>(std::ranges::lower_bound(all, pieces_[piece].begin, {}, &Comment::begin) - all.begin());
  }

  // Writes the comments before a statement or setting, and the author's blank line there.
  void start(const Range& range, int indent) {
    const uint32_t begin = pieces_[range.begin].begin;
    writer_.comments(begin, indent, true);
    const bool blank = writer_.blank_before(begin);
    writer_.new_line(indent);
    if (blank) {
      writer_.blank_line();
    }
  }

  Range range_of(const Stmt& stmt) const {
    const size_t begin = pieces_.at(stmt.span.begin);
    Range range{begin, pieces_.at(stmt.span.end, begin)};
    const bool has_assign =
        stmt.kind == StmtKind::kBind || stmt.kind == StmtKind::kHead || stmt.kind == StmtKind::kState;
    return with_assign(range, has_assign, static_cast<int>(stmt.kind));
  }

  Range range_of(const Setting& setting) const {
    const size_t begin = pieces_.at(setting.span.begin);
    Range range{begin, pieces_.at(setting.span.end, begin)};
    if (setting.kind == SettingKind::kGroup) {
      while (pieces_[range.end - 1].kind != TokenKind::kRightBrace) {
        --range.end;
      }
      range.end = pieces_[range.end - 1].partner;
    }
    const bool has_assign = setting.kind != SettingKind::kGroup && setting.kind != SettingKind::kMoved;
    return with_assign(range, has_assign, static_cast<int>(setting.kind));
  }

  Range with_assign(Range range, bool has_assign, int kind) const {
    range.kind = kind;
    for (size_t i = range.begin; has_assign && range.assign == 0 && i < range.end; i = pieces_.next(i)) {
      range.assign = pieces_[i].kind == TokenKind::kAssign ? i : 0;
    }
    return range;
  }

  int name_width(const Range& range) const { return range.assign == 0 ? 0 : pieces_.width(range.begin, range.assign); }

  bool is_one_line(const Range& range, int indent) const {
    return !pieces_.must_break(range.begin, range.end) && indent + pieces_.width(range.begin, range.end) <= kLineWidth;
  }

  // The end of the block of settings or statements that starts at `begin`. All members of a block are of one kind and
  // on one line each, without blank lines between them, and fit with their `=` in one column.
  size_t end_of_run(const std::vector<Range>& ranges, size_t begin, int indent) const {
    size_t end = begin + 1;
    if (ranges[begin].assign == 0 || !is_one_line(ranges[begin], indent)) {
      return end;
    }
    int widest = 0;
    int rest = 0;  // most columns of a member after its name
    const auto fits = [&](const Range& range) {
      const int name = name_width(range);
      const int wider = std::max(widest, name);
      const int more = std::max(rest, pieces_.width(range.begin, range.end) - name);
      if (indent + wider + more > kLineWidth) {
        return false;
      }
      widest = wider;
      rest = more;
      return true;
    };
    fits(ranges[begin]);
    while (end < ranges.size() && ranges[end].assign != 0 && ranges[end].kind == ranges[begin].kind &&
           is_one_line(ranges[end], indent) && !blank_between(ranges[end - 1], ranges[end]) && fits(ranges[end])) {
      ++end;
    }
    return end;
  }

  bool blank_between(const Range& a, const Range& b) const {
    const uint32_t from = pieces_[a.end - 1].end;
    const std::string_view gap = tokens_.text.substr(from, pieces_[b.begin].begin - from);
    size_t line = gap.find('\n');
    for (size_t next; line != std::string_view::npos; line = next) {
      next = gap.find('\n', line + 1);
      if (next != std::string_view::npos && gap.substr(line, next - line).find_first_not_of(" \t\n") == gap.npos) {
        return true;
      }
    }
    return false;
  }

  void item(const Stmt&, const Range& range, int indent, int widest) { assignment(range, indent, widest); }

  void item(const Setting& setting, const Range& range, int indent, int widest) {
    if (setting.kind != SettingKind::kGroup) {
      assignment(range, indent, widest);
      return;
    }
    header(range.begin, range.end, indent);
    body(setting.settings, range.end, indent);
  }

  void assignment(const Range& range, int indent, int widest) {
    if (range.assign == 0 || !is_one_line(range, indent)) {
      breaker_.write(range.begin, range.end, indent, 0);
      return;
    }
    breaker_.write_flat(range.begin, range.assign, indent);
    writer_.spaces(widest - name_width(range));
    breaker_.write_flat(range.assign, range.end, indent);
  }

  const Tokens& tokens_;
  const Ast& ast_;
  const Pieces& pieces_;
  Writer writer_;
  LineBreaker breaker_;
  size_t behind_ = 0;  // first piece after the last declaration: the search for the next one starts there
};

// The text without a byte-order mark, and without the carriage returns at the ends of its lines.
std::string without_foreign_ends(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    text.remove_prefix(3);
  }
  if (text.find('\r') == std::string_view::npos) {
    return std::string(text);
  }
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r' || (i + 1 < text.size() && text[i + 1] != '\n')) {
      out.push_back(text[i]);
    }
  }
  return out;
}

// Whether tabs are the only faults. The tree is then complete, and formatting replaces the tabs.
bool has_only_tabs(const Diagnostics& diagnostics) {
  return std::ranges::all_of(diagnostics.all(), [](const Diagnostic& d) {
    return d.severity == Severity::kWarning || (d.code == "XG0103" && d.message.starts_with("a tab;"));
  });
}

}  // namespace

std::optional<std::string> format(const std::string& path, std::string_view text, SourceMap& sources,
                                  Diagnostics& diagnostics) {
  const int32_t file = sources.add(path, without_foreign_ends(text));
  Diagnostics found;
  const auto [tokens, ast] = parse_with_tokens(sources, file, found);
  if (!has_only_tabs(found)) {
    for (const Diagnostic& diagnostic : found.all()) {
      diagnostics.add(diagnostic);
    }
    return std::nullopt;
  }
  const Pieces pieces(tokens, ast);
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  Formatter(tokens, ast, pieces, out).run();
  if (out.size() > kMaxFileBytes) {
    diagnostics.add(fault("XG0101", {file, 0, 0}, "in canonical layout the file is larger than 4 MiB", "not changed",
                          {"divide it: `import` and `from ... use` bring in the declarations of other files"}));
    return std::nullopt;
  }
  return out;
}

ChangedLines changed_lines(std::string_view before, std::string_view after) {
  if (before == after) {
    return {};
  }
  const auto line_at = [](std::string_view text, size_t at) {
    return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  };
  const size_t shorter = std::min(before.size(), after.size());
  size_t head = 0;
  while (head < shorter && before[head] == after[head]) {
    ++head;
  }
  size_t tail = 0;
  while (tail < shorter - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) {
    ++tail;
  }
  // A difference that ends at the end of a line belongs to that line.
  const size_t end = std::max(head, before.size() - tail);
  const bool ends_line = end > head && before[end - 1] == '\n';
  const int first = line_at(before, head);
  return {first, std::max(first, line_at(before, ends_line ? end - 1 : end))};
}

}  // namespace xrun::lang
