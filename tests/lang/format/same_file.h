// Compares two texts: whether they are the same file in different layouts, that is, have the same tree and the same
// comments.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lang/format/format.h"
#include "lang/syntax/parser.h"
#include "lang/syntax/print_syntax.h"
#include "lang/text/lexer.h"

namespace xrun::lang {

// The content of a file that a layout must keep. A layout may reorder declarations and group digits.
struct FileContent {
  std::vector<std::string> declarations;  // printed by print_ast, with the documentation
  std::vector<std::string> comments;
  bool operator==(const FileContent&) const = default;
};

// Returns the content of a text, or nullopt if the text does not parse. Tabs are not counted as faults.
inline std::optional<FileContent> content_of(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const auto [tokens, ast] = parse_with_tokens(sources, sources.add("content.xgraph", text), diagnostics);
  for (const Diagnostic& d : diagnostics.all()) {
    if (d.severity == Severity::kError && d.code != "XG0103") {
      return std::nullopt;
    }
  }
  FileContent content;
  const auto is_digit_at = [](const std::string& s, size_t at) { return at < s.size() && is_digit(s[at]); };
  std::string printed = print_ast(ast);
  printed.resize(printed.find_last_not_of('\n') + 1);  // the newline of the last declaration
  content.declarations.emplace_back();
  for (size_t i = 0; i < printed.size(); ++i) {
    if (printed[i] == '\n' && i + 1 < printed.size() && printed[i + 1] == '\n') {
      content.declarations.emplace_back();
    } else if (printed[i] != '_' || i == 0 || !is_digit_at(printed, i - 1) || !is_digit_at(printed, i + 1)) {
      content.declarations.back().push_back(printed[i]);
    }
  }
  for (const Comment& comment : tokens.comments) {
    content.comments.push_back(text.substr(comment.begin, comment.end - comment.begin));
  }
  std::sort(content.declarations.begin(), content.declarations.end());
  std::sort(content.comments.begin(), content.comments.end());
  return content;
}

// Describes a fault in the canonical layout of `text`. Returns an empty string if the layout keeps the content and a
// second layout changes nothing, or if the text does not parse.
inline std::string fault_of_layout(const std::string& text) {
  SourceMap sources;
  Diagnostics diagnostics;
  const auto out = format("text.xgraph", text, sources, diagnostics);
  if (!out) {
    return diagnostics.has_errors() ? "" : "no result and no fault";
  }
  const auto before = content_of(text);
  const auto after = content_of(*out);
  if (!after) {
    return "the result does not parse";
  }
  if (before && before->declarations != after->declarations) {
    return "another tree";
  }
  if (before && before->comments != after->comments) {
    return "other comments";
  }
  Diagnostics none;
  const auto again = format("again.xgraph", *out, sources, none);
  return !again ? "the result cannot be laid out" : *again != *out ? "a second layout differs from the first" : "";
}

}  // namespace xrun::lang
