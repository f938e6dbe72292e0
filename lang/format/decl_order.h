// The order in which the declarations of a file are written: imports sorted by path, then options, then all other
// declarations in the order of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lang/syntax/syntax.h"
#include "lang/text/token.h"

namespace xrun::lang {

// The declarations in the order in which they are written. A blank line after a comment separates it from the
// declaration below: such comments are the head of a section, and nothing moves out of its section. All other comments
// before a declaration move with it.
class DeclOrder {
 public:
  // A declaration with the comments before it.
  struct Entry {
    const Decl* decl = nullptr;
    uint32_t end_before = 0;  // end of the previous declaration in the file, or of the section's head
    size_t comment = 0;       // index of its first comment
    int rank = 0;             // order of the kinds: imports, options, others
    std::string_view path;    // path of an import
    // Comments [head, head_end) of the section that starts with this entry, and the end of the text before them.
    size_t head = 0;
    size_t head_end = 0;
    uint32_t head_end_before = 0;
  };

  // `end` is the end of the line with the edition, and `comment` the first comment after it.
  DeclOrder(const Tokens& tokens, const Ast& ast, uint32_t end, size_t comment);

  const std::vector<Entry>& entries() const { return entries_; }
  // The end of the last declaration of the file, with the comment on its line; and the first comment after it.
  uint32_t end() const { return end_; }
  size_t next_comment() const { return next_comment_; }

 private:
  size_t first_attached(size_t comment, uint32_t begin) const;
  Entry behind(const Decl& decl, size_t comment) const;
  void sort();

  const Tokens& tokens_;
  std::vector<Entry> entries_;
  std::vector<size_t> sections_;  // first entry of each section except the first
  uint32_t end_ = 0;
  size_t next_comment_ = 0;
};

}  // namespace xrun::lang
