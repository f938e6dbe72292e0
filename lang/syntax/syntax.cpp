#include "lang/syntax/syntax.h"

#include <iterator>

namespace xrun::lang {

std::string_view text_of(Op op) {
  constexpr std::string_view kTexts[] = {"-",  "not", "+", "-",  "*", "/",  "//",  "%", "^",
                                         "==", "!=",  "<", "<=", ">", ">=", "and", "or"};
  static_assert(std::size(kTexts) == static_cast<size_t>(Op::kOr) + 1);
  return kTexts[static_cast<size_t>(op)];
}

std::string_view keyword_of(DeclKind kind) {
  static constexpr std::string_view kWords[] = {"?",         "import",    "from",  "option", "let",  "fn",
                                                "pointwise", "optimizer", "block", "model",  "data", "train",
                                                "cluster",   "schedule",  "run",   "test",   "moved"};
  static_assert(std::size(kWords) == static_cast<size_t>(DeclKind::kMoved) + 1);
  return kWords[static_cast<size_t>(kind)];
}

DeclKind kind_of(std::string_view keyword) {
  for (DeclKind kind = DeclKind::kImport; kind <= DeclKind::kMoved; kind = next(kind)) {
    if (keyword_of(kind) == keyword) {
      return kind;
    }
  }
  return DeclKind::kError;
}

std::string join_path(std::span<const Name> path) {
  std::string out;
  for (const Name& name : path) {
    out += out.empty() ? "" : ".";
    out += name.text;
  }
  return out;
}

}  // namespace xrun::lang
