// Reads text in the style of other languages if its meaning is clear, and reports it with a fix: loops, declarations
// and conditional expressions of Python, statements with a word or a type that the language does not have, paths
// without quotes.
// Tests: tests/lang/text/foreign_names_test.cpp, tests/lang/first_time_test.cpp
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "lang/syntax/parser_rules.h"

namespace xrun::lang {
namespace {

struct Word {
  std::string_view foreign;
  std::string_view ours;
};

// The words of other languages that start a declaration, if the rest of it has the syntax of the language.
constexpr Word kDeclarations[] = {
    {"const", "let"},        {"var", "let"},         {"val", "let"},        {"define", "let"},
    {"function", "fn"},      {"func", "fn"},         {"fun", "fn"},         {"network", "model"},
    {"net", "model"},        {"graph", "model"},     {"module", "model"},   {"dataset", "data"},
    {"datasets", "data"},    {"dataloader", "data"}, {"training", "train"}, {"trainer", "train"},
    {"solver", "train"},     {"fit", "train"},       {"layer", "block"},    {"component", "block"},
    {"hardware", "cluster"}, {"machine", "cluster"}, {"include", "import"}, {"require", "import"},
    {"using", "import"},     {"use", "import"},
};

constexpr std::string_view kLoops[] = {"for", "foreach", "while", "loop", "do", "times"};
constexpr std::string_view kBindingWords[] = {"let", "var", "const", "val", "int", "float", "double", "str", "bool"};
constexpr std::string_view kPythonModules[] = {
    "torch",   "torchvision", "numpy",        "np", "tensorflow", "tf",   "keras",     "jax",    "flax",
    "sklearn", "timm",        "transformers", "os", "sys",        "math", "lightning", "pandas", "random"};

template <class List>
bool is_one_of(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::end(list);
}

}  // namespace

// Reads the rest of `a if c else b` of Python, whose meaning is clear; `value` is `a`.
ExprId Parser::choice_behind(ExprId value) {
  const Nest nest(*this);
  if (!nest.ok) {
    return error_node(here());
  }
  const Span sign = here();
  advance();
  Expr expr;
  expr.kind = ExprKind::kIf;
  expr.lhs = value;
  expr.condition = disjunction();
  const bool has_else = !lost_ && take(TokenKind::kElse);
  expr.rhs = has_else ? expression() : error_node(sign);
  if (lost_) {
    return error_node(sign);
  }
  expr.span = {tokens_.file, ast_[value].span.begin, last_end_};
  fault("XG0110", sign, "the condition of a choice is written before its values", "follows a value",
        has_else ? choice_in_braces(expr) : Fix{"add the other value: if c { a } else { b }"});
  lost_ = false;
  return has_else ? add(expr) : error_node(expr.span);
}

// Reads the rest of `if c then a else b` after the condition.
ExprId Parser::choice_with_then(Span start, ExprId condition) {
  const Span then = here();
  advance();
  Expr expr{.kind = ExprKind::kIf, .lhs = expression(), .condition = condition};
  const bool has_else = !lost_ && take(TokenKind::kElse);
  expr.rhs = has_else ? expression() : error_node(then);
  if (lost_) {
    return error_node(then);
  }
  expr.span = from(start);
  fault("XG0110", then, "the values of a choice are written in braces", "no brace here",
        has_else ? choice_in_braces(expr) : Fix{"add the other value: if c { a } else { b }"});
  lost_ = false;
  return has_else ? add(expr) : error_node(expr.span);
}

Fix Parser::choice_in_braces(const Expr& expr) const {
  const auto text = [&](ExprId id) {
    return tokens_.text.substr(ast_[id].span.begin, ast_[id].span.end - ast_[id].span.begin);
  };
  return replacement("write `if c { a } else { b }`", expr.span,
                     {"if {} {{ {} }} else {{ {} }}", text(expr.condition), text(expr.lhs), text(expr.rhs)}, true);
}

// Skips the body of `for ...:` or `if ...:`, which is the lines with more indentation.
void Parser::skip_indented(uint32_t begin) {
  const auto column = [&](uint32_t at) { return at - (tokens_.text.rfind('\n', at) + 1); };
  while (!at(TokenKind::kNewline) && !at(TokenKind::kEnd) && !at(TokenKind::kLeftBrace)) {
    advance();
  }
  if (!at(TokenKind::kNewline) || tokens_.tokens[at_ - 1].kind != TokenKind::kColon) {
    return;
  }
  while (at(TokenKind::kNewline) && ahead().kind != TokenKind::kEnd && column(ahead().begin) > column(begin)) {
    advance();
    while (!at(TokenKind::kNewline) && !at(TokenKind::kEnd) && !at(TokenKind::kRightBrace)) {
      advance();
    }
  }
}

// The span of a path without quotes that begins here with `/`, `..`, `.` or `~`; empty if there is no such path.
Span Parser::unquoted_path() const {
  const bool begins =
      at(TokenKind::kSlash) || at(TokenKind::kRange) || at(TokenKind::kDot) || at(TokenKind::kSlashSlash);
  uint32_t end = here().begin;
  const std::string_view others = "/._-~*+@";
  while (begins && end < tokens_.text.size() &&
         (is_name_char(tokens_.text[end]) || others.find(tokens_.text[end]) != std::string_view::npos)) {
    ++end;
  }
  const bool has_name = std::ranges::any_of(tokens_.text.substr(here().begin, end - here().begin), is_name_char);
  return {tokens_.file, here().begin, has_name ? end : here().begin};
}

// The repetitions and the counter of the loop that begins at the token, as `repeat` writes them: "3 as i". Empty if
// they are not clear.
std::string Parser::repetitions(size_t at) const {
  const auto kind_at = [&](size_t i) { return tokens_.tokens[std::min(i, tokens_.tokens.size() - 1)].kind; };
  const auto text_at = [&](size_t i) { return std::string(tokens_.spelling(tokens_.tokens[i])); };
  const auto number_at = [&](size_t i) {
    return kind_at(i) == TokenKind::kNumber ? ast_.numbers[tokens_.tokens[i].literal].whole_in_base() : std::nullopt;
  };
  std::string index;
  if (kind_at(at) == TokenKind::kName && kind_at(at + 1) == TokenKind::kName && text_at(at + 1) == "in") {
    index = text_at(at) == "_" ? "" : " as " + text_at(at);
    at += 2;
  }
  if (kind_at(at) == TokenKind::kName && text_at(at) == "range" && kind_at(at + 1) == TokenKind::kLeftParen) {
    at += 2;  // range(3)
  }
  const auto first = number_at(at);
  if (first && kind_at(at + 1) == TokenKind::kRange && number_at(at + 2)) {
    return fmt::format("{}{}", static_cast<int64_t>(*number_at(at + 2) - *first), index);
  }
  return first && kind_at(at + 1) != TokenKind::kComma ? text_at(at) + index : "";
}

// Reads a loop as a stage, such as `x -> for i in 0..3 { ... }`. It means the stage `repeat`.
bool Parser::foreign_loop() {
  if (lost_ || !at(TokenKind::kName) || !is_one_of(kLoops, tokens_.spelling(current())) ||
      (ahead().kind != TokenKind::kName && ahead().kind != TokenKind::kNumber)) {
    return false;
  }
  size_t brace = at_;
  const auto ends = [](TokenKind kind) {
    return kind == TokenKind::kLeftBrace || kind == TokenKind::kNewline || kind == TokenKind::kEnd;
  };
  while (!ends(tokens_.tokens[brace].kind)) {
    ++brace;
  }
  const std::string count = repetitions(at_ + 1);
  const Span header{tokens_.file, here().begin, tokens_.tokens[brace - 1].end};
  fault("XG0110", header, "stages are repeated with `repeat`", "",
        count.empty() ? Fix{"write how often: repeat 3 as i { linear(8) -> relu }"}
                      : replacement({"write `repeat {}`", count}, header, "repeat " + count, true));
  return true;
}

// Reports a statement that starts with a name and continues neither with `=` nor with a word that follows a name.
void Parser::no_statement(const Name& name) {
  const Span before{tokens_.file, name.span.begin, name.span.begin};
  const Span to_next{tokens_.file, name.span.begin, here().begin};
  const TokenKind second = ahead().kind;
  const bool updates = kind() >= TokenKind::kPlus && kind() <= TokenKind::kCaret && second == TokenKind::kAssign;
  if (is_one_of(kLoops, name.text) && !at(TokenKind::kArrow)) {
    const std::string count = repetitions(at_);
    fault("XG0114", name.span, "a body has no loops", "not a statement",
          {"repeat stages: y = x -> repeat {} {{ linear(64) -> relu }}", count.empty() ? "3 as i" : count});
    skip_indented(name.span.begin);
  } else if (is_one_of(kBindingWords, name.text) && at(TokenKind::kName) && second == TokenKind::kAssign) {
    fault("XG0114", name.span, {"a binding starts with its name, without `{}`", name.text}, "not needed",
          replacement("leave it out", to_next, "", true));
    lost_ = false;  // the meaning is clear
  } else if (updates) {
    fault("XG0114", here(), {"`{}` keeps its value", name.text}, "changes it",
          replacement("give the new value a name of its own", {tokens_.file, name.span.begin, ahead().end},
                      {"{}2 = {} {}", name.text, name.text, text_of(kind())}));
  } else if (at(TokenKind::kArrow)) {
    fault("XG0114", name.span, "the result of the stages has no name", "not a statement",
          replacement("give it one", before, "y = "));
  } else if (at(TokenKind::kLess) && second == TokenKind::kMinus) {
    fault("XG0114", {tokens_.file, here().begin, ahead().end}, "`=` binds a name", "",
          replacement("write `=`", {tokens_.file, here().begin, ahead().end}, "=", true));
  } else if (at(TokenKind::kLeftParen)) {
    fault("XG0114", name.span, {"the result of `{}` has no name", name.text}, "not a statement",
          replacement("give it one", before, "y = "));
  } else {
    unknown_statement(name);
  }
}

// Reports `if c { ... }` as a statement, as other languages have it.
void Parser::reserved_statement() {
  const std::string_view word = text_of(kind());
  const char* example = at(TokenKind::kIf)         ? "y = if c { a } else { b }, or x -> if c { relu }"
                        : at(TokenKind::kRepeat)   ? "y = x -> repeat 3 { linear(64) -> relu }"
                        : at(TokenKind::kResidual) ? "y = x -> residual { linear(64) -> relu }"
                                                   : "y = x -> fork { linear(8), linear(16) } -> concat";
  fault("XG0114", here(), {"no statement starts with `{}`", word}, "not a statement",
        {"give its result a name: {}", example});
  skip_indented(here().begin);
}

// Reports text that starts no declaration. If the rest has the syntax of the language, returns the kind of declaration
// that was meant.
DeclKind Parser::unknown_declaration() {
  if (!at(TokenKind::kName)) {
    expected("a declaration", declarations_help());
    return DeclKind::kError;
  }
  const std::string_view word = tokens_.spelling(current());
  const auto ours = std::ranges::find(kDeclarations, word, &Word::foreign);
  Fix fix = did_you_mean(word, declaration_words(), here(), declarations_help());
  if (word == "def") {
    fix = {"a function of numbers is fn f(x) = 2 * x, and one of tensors block f(x: [N, C]) { return x -> relu }"};
  } else if (word == "class" || word == "struct") {
    fix = {"a network is model NAME { ... }, and a part of one block NAME(x: [N, C]) { return ... }"};
  } else if (ours != std::end(kDeclarations)) {
    fix = replacement({"`{}` is `{}` here", word, ours->ours}, here(), std::string(ours->ours), true);
  } else if (ahead().kind == TokenKind::kAssign) {
    fix = replacement("a constant is declared with `let`", {tokens_.file, here().begin, here().begin}, "let ", true);
  }
  fault("XG0114", here(), {"no declaration starts with `{}`", word.substr(0, 40)}, "", std::move(fix));
  if (ours != std::end(kDeclarations) && (ahead().kind == TokenKind::kName || ahead().kind == TokenKind::kLeftBrace)) {
    lost_ = false;
    return kind_of(ours->ours);
  }
  // The body is skipped, and its faults are not reported. The next declaration starts in column 1.
  while (!at(TokenKind::kEnd) && !starts_declaration(tokens_, at_) &&
         (!ahead().starts_line || tokens_.tokens[at_ + 1].kind == TokenKind::kRightBrace)) {
    advance();
  }
  return DeclKind::kError;
}

// Whether a type has its dimensions in round brackets, as in f32(N, 64). Only `index` may have round brackets.
bool Parser::has_round_dims(const Name& type) const {
  return !lost_ && at(TokenKind::kLeftParen) && type && type.text != "index" &&
         (ahead().kind == TokenKind::kNumber || ahead().kind == TokenKind::kName) &&
         tokens_.tokens[std::min(at_ + 2, tokens_.tokens.size() - 1)].kind == TokenKind::kComma;
}

Fix Parser::round_dims() const {
  int depth = 0;
  for (size_t i = at_; i < tokens_.tokens.size(); ++i) {
    const TokenKind kind = tokens_.tokens[i].kind;
    depth += kind == TokenKind::kLeftParen ? 1 : kind == TokenKind::kRightParen ? -1 : 0;
    if (depth == 0 || kind == TokenKind::kNewline) {
      Fix fix = replacement("write `[` and `]`", here(), "[", true);
      fix.edits.push_back({tokens_.span(tokens_.tokens[i]), "]"});
      return depth == 0 ? fix : Fix{"write f32[N, 64]"};
    }
  }
  return {"write f32[N, 64]"};
}

// Whether the text begins with a declaration of this language and only the line with the edition is missing. `import
// torch` is not such a declaration.
bool Parser::begins_as_ours() const {
  const bool takes_text = at_word("import") || at_word("from") || at_word("test");
  return at(TokenKind::kEnd) ||
         (starts_declaration(tokens_, at_) && (!takes_text || ahead().kind == TokenKind::kString));
}

// Reads the path of an import, which is in double quotes.
ExprId Parser::expect_path() {
  if (lost_ || at(TokenKind::kString)) {
    return expect_string("the path of a file in double quotes");
  }
  const std::string_view rest = tokens_.text.substr(here().begin);
  const std::string_view path = rest.substr(0, rest.find_first_of(" \t\r\n"));
  const Span at_path{tokens_.file, here().begin, here().begin + static_cast<uint32_t>(path.size())};
  const std::string_view first = path.substr(0, path.find('.'));
  Fix fix{"write the path of a file in double quotes here"};
  if (is_one_of(kPythonModules, first)) {
    fix = {"leave the line out: operators, losses and optimizers need no import"};
  } else if (at(TokenKind::kName)) {
    fix = replacement("a path is written in double quotes", at_path, {"\"{}\"", path}, true);
  }
  expected("the path of a file in double quotes", std::move(fix));
  return {};
}

}  // namespace xrun::lang
