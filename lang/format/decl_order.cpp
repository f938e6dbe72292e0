#include "lang/format/decl_order.h"

#include <algorithm>
#include <utility>

namespace xrun::lang {

DeclOrder::DeclOrder(const Tokens& tokens, const Ast& ast, uint32_t end, size_t comment) : tokens_(tokens) {
  Entry next{.end_before = end, .comment = comment};
  for (const Decl& decl : ast.decls) {
    const bool imports = decl.kind == DeclKind::kImport || decl.kind == DeclKind::kFrom;
    next.decl = &decl;
    next.rank = imports ? 0 : decl.kind == DeclKind::kOption ? 1 : 2;
    next.path = imports ? std::string_view(ast.text(decl.text)) : std::string_view();
    if (const size_t attached = first_attached(next.comment, decl.keyword.begin); attached > next.comment) {
      next.head = next.comment;
      next.head_end = attached;
      next.head_end_before = next.end_before;
      next.comment = attached;
      next.end_before = tokens_.comments[attached - 1].end;
      sections_.push_back(entries_.size());
    }
    entries_.push_back(next);
    next = behind(decl, next.comment);
  }
  end_ = next.end_before;
  next_comment_ = next.comment;
  sort();
}

// The first comment, from number `comment` on, that belongs to the declaration at `begin`: no blank line is between
// them.
size_t DeclOrder::first_attached(size_t comment, uint32_t begin) const {
  const std::vector<Comment>& comments = tokens_.comments;
  size_t attached = comment;
  for (size_t i = comment; i < comments.size() && comments[i].begin < begin; ++i) {
    const bool is_last = i + 1 == comments.size() || comments[i + 1].begin >= begin;
    const uint32_t next = is_last ? begin : comments[i + 1].begin;
    const std::string_view gap = tokens_.text.substr(comments[i].end, next - comments[i].end);
    attached = std::ranges::count(gap, '\n') > 1 ? i + 1 : attached;
  }
  return attached;
}

// The entry that starts after the declaration `decl` and the comment on its last line.
DeclOrder::Entry DeclOrder::behind(const Decl& decl, size_t comment) const {
  uint32_t end = decl.span.end;
  const std::vector<Comment>& comments = tokens_.comments;
  while (comment < comments.size() && comments[comment].begin < end) {
    ++comment;
  }
  if (comment < comments.size() && !comments[comment].is_doc &&
      tokens_.text.substr(end, comments[comment].begin - end).find('\n') == std::string_view::npos) {
    end = comments[comment].end;
    ++comment;
  }
  return {.end_before = end, .comment = comment};
}

// Sorts the declarations of each section. The head of a section stays before its first declaration.
void DeclOrder::sort() {
  sections_.push_back(entries_.size());
  size_t begin = 0;
  for (const size_t end : sections_) {
    if (begin < end) {
      const Entry first = entries_[begin];
      entries_[begin].head = entries_[begin].head_end = 0;
      std::stable_sort(
          entries_.begin() + static_cast<std::ptrdiff_t>(begin), entries_.begin() + static_cast<std::ptrdiff_t>(end),
          [](const Entry& a, const Entry& b) { return std::pair(a.rank, a.path) < std::pair(b.rank, b.path); });
      entries_[begin].head = first.head;
      entries_[begin].head_end = first.head_end;
      entries_[begin].head_end_before = first.head_end_before;
    }
    begin = end;
  }
}

}  // namespace xrun::lang
