// Tests: tests/runtime/interchange/names/name_table_test.cpp
#include "runtime/interchange/names/name_tokens.h"

#include <algorithm>

#include "graph/base/utf8.h"

namespace xrun::runtime {
namespace {

using Kind = NameToken::Kind;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  Lexer(const SourceMap& sources, int32_t file, Diagnostics& diagnostics)
      : text_(sources.text(file)), file_(file), diagnostics_(diagnostics) {}

  std::vector<NameToken> run() {
    while (at_ < text_.size()) {
      next();
    }
    add(Kind::kEnd, at_, at_);
    return std::move(tokens_);
  }

 private:
  char peek(size_t further = 0) const { return at_ + further < text_.size() ? text_[at_ + further] : '\0'; }
  bool at_arrow() const { return peek() == '-' && peek(1) == '>'; }
  Span span(size_t begin, size_t end) const {
    return {file_, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  }

  void add(Kind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, text_.substr(begin, end - begin), span(begin, end)});
  }

  void single(Kind kind, size_t length) {
    add(kind, at_, at_ + length);
    at_ += length;
  }

  void next() {
    const char c = peek();
    if (c == '\n') {
      single(Kind::kNewline, 1);
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ',') {
      single(Kind::kComma, 1);
    } else if (at_arrow()) {
      single(Kind::kArrow, 2);
    } else if (c == '{' && !is_letter(peek(1))) {
      single(Kind::kOpen, 1);
    } else if (c == '}') {
      single(Kind::kClose, 1);
    } else if (c == '"') {
      string();
    } else if (is_control(c)) {
      diagnostics_.add(name_fault(span(at_, at_ + 1), "a character that is not text", "here",
                                  "remove it: a name table is plain text"));
      ++at_;
    } else {
      word();
    }
  }

  void string() {
    const size_t begin = at_ + 1;
    const size_t line_end = std::min(text_.find('\n', begin), text_.size());
    const size_t end = text_.find('"', begin);
    if (end >= line_end) {
      diagnostics_.add(name_fault(span(at_, line_end), "a text that does not end", "no closing quote in this line",
                                  "end it with \" in the same line"));
      at_ = line_end;
      return;
    }
    add(Kind::kString, begin, end);
    at_ = end + 1;
  }

  void word() {
    const size_t begin = at_;
    while (at_ < text_.size() && !is_control(peek()) &&
           std::string_view(" ,\"#}").find(peek()) == std::string_view::npos && !at_arrow()) {
      if (peek() != '{') {
        ++at_;
        continue;
      }
      const size_t line_end = std::min(text_.find('\n', at_), text_.size());
      const size_t end = text_.find('}', at_);
      if (end >= line_end) {
        diagnostics_.add(name_fault(span(at_, line_end), "a capture that does not end", "no closing brace in this line",
                                    "write captures as {name}, and the brace of `within` after a blank"));
        at_ = line_end;
        return;
      }
      at_ = end + 1;
    }
    add(Kind::kWord, begin, at_);
  }

  std::string_view text_;
  int32_t file_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  std::vector<NameToken> tokens_;
};

}  // namespace

Diagnostic name_fault(Span at, std::string message, std::string label, std::string help) {
  Diagnostic diagnostic{.code = "XG0940", .message = std::move(message), .primary = {at, std::move(label)}};
  diagnostic.fixes.push_back({.title = std::move(help)});
  return diagnostic;
}

std::vector<NameToken> name_tokens(const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  return Lexer(sources, file, diagnostics).run();
}

size_t end_of_block(const std::vector<NameToken>& tokens, size_t first) {
  size_t open = 0;
  size_t at = first;
  for (; tokens[at].kind != Kind::kEnd; ++at) {
    const Kind kind = tokens[at].kind;
    open += kind == Kind::kOpen ? 1 : 0;
    if (kind == Kind::kClose && open <= 1) {
      return at + 1;
    }
    open -= kind == Kind::kClose ? 1 : 0;
    if (kind == Kind::kNewline && open == 0 && tokens[at + 1].text != "or") {
      break;
    }
  }
  return at;
}

}  // namespace xrun::runtime
