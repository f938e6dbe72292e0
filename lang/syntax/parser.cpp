#include "lang/syntax/parser.h"

#include <utility>

#include "graph/os/large_pages.h"
#include "lang/syntax/parser_rules.h"

namespace xrun::lang {

Parser::Parser(Tokens tokens, Faults& faults) : tokens_(std::move(tokens)), faults_(faults) {
  ast_.file = tokens_.file;
  // The vectors are moved as a whole, so that the indices of literals in tokens stay valid.
  ast_.numbers = std::move(tokens_.numbers);
  ast_.strings = std::move(tokens_.strings);
  reserve_large(ast_.exprs, tokens_.tokens.size());
  reserve_large(heights_, tokens_.tokens.size());
}

const Token& Parser::ahead() const { return tokens_.tokens[std::min(at_ + 1, tokens_.tokens.size() - 1)]; }

Span Parser::from(const Span& start) const { return {tokens_.file, start.begin, std::max(start.begin, last_end_)}; }

void Parser::advance() {
  const Token& token = current();
  if (token.kind == TokenKind::kEnd) {
    return;
  }
  if (token.kind == TokenKind::kLeftBrace) {
    ++depth_;
  } else if (token.kind == TokenKind::kRightBrace && !token.unpaired) {
    --depth_;
  }
  if (token.kind != TokenKind::kNewline) {
    last_end_ = token.end;
  }
  ++at_;
}

bool Parser::take(TokenKind wanted) {
  if (lost_ || !at(wanted)) {
    return false;
  }
  advance();
  return true;
}

bool Parser::enter() {
  if (++nesting_ <= kMaxNesting) {
    return true;
  }
  fault("XG0106", here(), {"nested more than {} levels deep", kMaxNesting}, "one level too many",
        {"give an inner part a name of its own, and use the name here"});
  return false;
}

void Parser::skip_newlines() {
  while (!lost_ && at(TokenKind::kNewline)) {
    advance();
  }
}

bool Parser::expect(TokenKind wanted, std::string_view what) {
  if (take(wanted)) {
    return true;
  }
  const bool compares = wanted == TokenKind::kLeftBrace && at(TokenKind::kAssign);  // if x = 1 { ... }
  expected(what.empty() ? "`" + std::string(text_of(wanted)) + "`" : std::string(what),
           compares ? replacement("`==` compares", here(), "==") : insertion(text_of(wanted)));
  return false;
}

Name Parser::take_name() {
  const Name name{tokens_.spelling(current()), here()};
  advance();
  return name;
}

Name Parser::expect_name(std::string_view what) {
  if (lost_) {
    return {};
  }
  if (at(TokenKind::kName)) {
    return take_name();
  }
  if (is_reserved(kind())) {
    fault("XG0113", here(), {"expected {}, but `{}` is a reserved word", what, text_of(kind())}, "reserved",
          replacement("choose another name", here(), {"{}_", text_of(kind())}));
    return {};
  }
  expected(what, {"write {} here", what});
  return {};
}

Name Parser::expect_new_name(std::string_view what) {
  const Name name = expect_name(what);
  if (name.text == "N") {
    faults_.error("XG0202", name.span, "`N` is the batch dimension and cannot be bound", "",
                  replacement("choose another name", name.span, "n"));
    return name;
  }
  if (name && name.text[0] >= 'A' && name.text[0] <= 'Z' && !faults_.full_of_warnings()) {
    std::string small(name.text);
    small[0] = static_cast<char>(small[0] - 'A' + 'a');
    faults_.warning("XG0120", name.span, {"`{}` starts with an upper-case letter", name.text},
                    "such names are for dimensions",
                    replacement("write it in lower case, here and wherever it is used", name.span, std::move(small)));
  }
  return name;
}

ExprId Parser::expect_string(std::string_view what) {
  if (lost_) {
    return {};
  }
  if (at(TokenKind::kString)) {
    return leaf(ExprKind::kString);
  }
  expected(what, {"write {} here", what});
  return {};
}

bool Parser::expect_close(const Token& open, TokenKind closing, std::string_view otherwise) {
  if (take(closing)) {
    return true;
  }
  if (open.unpaired) {
    lost_ = true;
  }
  if (!lost_) {
    const std::string sign = "`" + std::string(text_of(closing)) + "`";
    const std::string what = otherwise.empty() ? sign : std::string(otherwise) + " or " + sign;
    const bool goes_on =
        otherwise == "`,`" && (at(TokenKind::kName) || at(TokenKind::kNumber) || at(TokenKind::kString));
    const Span opening = tokens_.span(open);
    Fix fix = insertion(goes_on ? "," : text_of(closing));
    if (at(TokenKind::kColon) && ahead().kind == TokenKind::kNumber) {
      fix = replacement("a range has two dots", here(), "..");
    }
    if (Diagnostic* made = expected(what, std::move(fix))) {
      made->secondary.push_back({opening, "opened here"});
      misses_brace_ = misses_brace_ || closing == TokenKind::kRightBrace;
    }
  }
  return false;
}

Diagnostic* Parser::expected(std::string_view what, Help help) {
  return fault("XG0110", here(), {"expected {}, found {}", what, describe(tokens_, current())}, "", std::move(help));
}

// The fix that inserts a sign after the last token that was read. A space precedes the sign if it is usually written
// with one.
Fix Parser::insertion(std::string_view sign) const {
  const bool tight = sign == "," || sign == ":" || sign == ")" || sign == "]" || sign == "(";
  return replacement({"put `{}` there", sign}, {tokens_.file, last_end_, last_end_},
                     (tight ? "" : " ") + std::string(sign));
}

Diagnostic* Parser::fault(const char* code, Span at, Text message, Text label, Help help) {
  if (lost_) {
    return nullptr;
  }
  lost_ = true;
  if (faults_.full()) {
    at_ = tokens_.tokens.size() - 1;  // too many errors: the rest of the file is not read
    return nullptr;
  }
  if (kind() == TokenKind::kBad || current().unpaired) {
    return nullptr;  // already reported by the lexer
  }
  if (at.begin == at.end || tokens_.text[at.begin] == '\n') {
    at = {at.file, last_end_, last_end_};  // a missing token belongs after the last one, not on the next line
  }
  return &faults_.error(code, at, std::move(message), std::move(label), std::move(help));
}

// Ends a statement, a setting or a declaration, and reports text after it on the same line.
void Parser::end_of_statement() {
  if (lost_ || at(TokenKind::kNewline) || at(TokenKind::kEnd) || at(TokenKind::kRightBrace) ||
      starts_declaration(tokens_, at_)) {
    return;
  }
  if (at(TokenKind::kElse)) {
    fault("XG0110", here(), "`else` without an `if` before it", "", {"put it after the `}` of its `if`"});
    return;
  }
  if (at(TokenKind::kSlashSlash)) {
    expected("the end of the line", replacement("a comment starts with `#`", here(), "#", true));
    return;
  }
  if (at(TokenKind::kComma) &&
      tokens_.text.substr(here().end, ahead().begin - here().end).find('\n') != std::string_view::npos) {
    fault("XG0110", here(), "a line ends without a comma", "a comma", replacement("leave it out", here(), "", true));
    lost_ = false;  // the next line is a separate statement
    advance();
    return;
  }
  // In `x -> conv(8) relu` an arrow is missing in the pipe.
  const size_t line = tokens_.text.rfind('\n', current().begin) + 1;
  const bool pipe =
      at(TokenKind::kName) && tokens_.text.substr(line, current().begin - line).find("->") != std::string_view::npos;
  const Span before{tokens_.file, current().begin, current().begin};
  expected("the end of the line", pipe ? replacement("put the arrow between two stages", before, "-> ")
                                       : Fix{"put what follows on a line of its own"});
}

// Skips to the newline that ends the statement at this depth of braces, or to the `}` or declaration that ends its
// body.
void Parser::recover(int depth) {
  lost_ = false;
  while (!at(TokenKind::kEnd) && !starts_declaration(tokens_, at_)) {
    if (depth_ <= depth && (at(TokenKind::kNewline) || (at(TokenKind::kRightBrace) && !current().unpaired))) {
      return;
    }
    advance();
  }
}

// Whether a body ends here. It ends at its `}`, which is consumed, or at the next declaration or the end of the file,
// where the missing `}` is reported.
bool Parser::body_ends(const Token& open) {
  skip_newlines();
  if (at(TokenKind::kRightBrace)) {
    if (current().starts_line && depth_ > 1 && !suspect_.valid()) {
      suspect_ = tokens_.span(open);
    }
    advance();
    return true;
  }
  if (!at(TokenKind::kEnd) && !starts_declaration(tokens_, at_)) {
    return false;
  }
  if (std::exchange(misses_brace_, false)) {
    depth_ = 0;  // the inner brace that was reported is the missing one
  }
  if (depth_ > 0) {
    const Span opening = suspect_.valid() ? suspect_ : tokens_.span(open);
    Diagnostic& made = faults_.error("XG0111", opening, "`{` is never closed", "", {"write `}` where it ends"});
    if (!at(TokenKind::kEnd)) {
      made.secondary.push_back({here(), "another declaration starts before its `}`"});
    }
    depth_ = 0;
    suspect_ = {};
  }
  return true;
}

// Reports an `else` on the line after its `}`, and reads it, since its meaning is clear.
void Parser::else_on_its_own_line() {
  if (lost_ || !at(TokenKind::kNewline) || ahead().kind != TokenKind::kElse) {
    return;
  }
  const Span gap{tokens_.file, last_end_, ahead().begin};
  advance();
  faults_.error("XG0116", here(), "`else` must be on the line of the `}` before it", "the newline ends the statement",
                replacement("join the lines", gap, " ", true));
}

Ast Parser::parse_params_only() {
  skip_newlines();
  ast_.params = params();
  skip_newlines();
  if (!lost_ && !at(TokenKind::kEnd)) {
    expected("the end of the signature", {"leave out what follows"});
  }
  return std::move(ast_);
}

Ast Parser::parse_value_only() {
  skip_newlines();
  ast_.value = expression();
  skip_newlines();
  if (!lost_ && !at(TokenKind::kEnd)) {
    expected("the end of the value", {"leave out what follows"});
  }
  if (lost_) {
    ast_.value = error_node({tokens_.file, 0, last_end_});
  }
  return std::move(ast_);
}

std::string describe(const Tokens& tokens, const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
    case TokenKind::kNewline:
    case TokenKind::kString:
    case TokenKind::kBad:
      return std::string(text_of(token.kind));
    default: {
      const std::string_view text = tokens.spelling(token);
      return "`" + std::string(text.substr(0, 40)) + (text.size() > 40 ? "...`" : "`");
    }
  }
}

namespace {

Ast parse_by(Ast (Parser::*rule)(), const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  Faults faults(diagnostics);
  Parser parser(lex(sources, file, faults), faults);
  Ast ast = (parser.*rule)();
  faults.flush();
  return ast;
}

}  // namespace

ParsedFile parse_with_tokens(const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  Faults faults(diagnostics);
  Parser parser(lex(sources, file, faults), faults);
  Ast ast = parser.parse_file();
  faults.flush();
  return {parser.take_tokens(), std::move(ast)};
}

Ast parse(const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  return parse_by(&Parser::parse_file, sources, file, diagnostics);
}

Ast parse_params(const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  return parse_by(&Parser::parse_params_only, sources, file, diagnostics);
}

Ast parse_value(const SourceMap& sources, int32_t file, Diagnostics& diagnostics) {
  return parse_by(&Parser::parse_value_only, sources, file, diagnostics);
}

}  // namespace xrun::lang
