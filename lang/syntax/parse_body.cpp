// Bodies: statements of models, blocks, optimizers and tests, and settings of the other declarations.
// Tests: tests/lang/syntax/parser_test.cpp
#include <array>
#include <utility>

#include "lang/syntax/parser_rules.h"

namespace xrun::lang {
namespace {

constexpr std::array<std::pair<std::string_view, StmtKind>, 8> kStatementWords = {{
    {"input", StmtKind::kInput},
    {"output", StmtKind::kOutput},
    {"head", StmtKind::kHead},
    {"param", StmtKind::kParam},
    {"state", StmtKind::kState},
    {"return", StmtKind::kReturn},
    {"assert", StmtKind::kAssert},
    {"expect", StmtKind::kExpect},
}};

}  // namespace

// "{" { item end } "}"
template <class T>
Run<T> Parser::braced(T (Parser::*item)(), void (Parser::*end)()) {
  const Nest nest(*this);
  const Token open = current();
  if (!nest.ok || !expect(TokenKind::kLeftBrace)) {
    return {};
  }
  Gather<T> list(stacks_);
  while (!body_ends(open)) {
    const int depth = depth_;
    T one = (this->*item)();
    (this->*end)();
    if (lost_) {
      spoil(one);
      recover(depth);
    }
    list.push(one);
  }
  return list.into(ast_);
}

Run<Stmt> Parser::body() { return braced(&Parser::statement, &Parser::end_of_statement); }
Run<Setting> Parser::settings() { return braced(&Parser::setting, &Parser::end_of_setting); }

// Makes the value of a statement an error node. Used if text follows the value: the text belongs to the value, which is
// then unknown.
void Parser::spoil(Stmt& stmt) {
  if (stmt.value.valid()) {
    stmt.value = error_node(stmt.span);
  }
}

void Parser::spoil(Setting& setting) {
  if (setting.value.valid()) {
    setting.value = error_node(setting.span);
  }
}

Stmt Parser::statement() {
  Stmt stmt;
  const Span start = here();
  // A statement word is a name if `=` follows it, and a keyword otherwise.
  for (const auto& [word, kind] : kStatementWords) {
    if (at_word(word) && ahead().kind != TokenKind::kAssign) {
      stmt.kind = kind;
      advance();
      break;
    }
  }
  Gather<Name> names(stacks_);
  switch (stmt.kind) {
    case StmtKind::kError:
      binding(stmt);
      break;
    case StmtKind::kInput:
    case StmtKind::kParam:
      typed_statement(stmt);
      break;
    case StmtKind::kOutput:
      do {
        if (const Name name = expect_name("a name of a value")) {
          names.push(name);
        }
      } while (take(TokenKind::kComma));
      stmt.names = names.into(ast_);
      break;
    case StmtKind::kHead:
    case StmtKind::kState:
      names.push(expect_new_name(stmt.kind == StmtKind::kHead ? "a name for the head" : "a name for the state"));
      stmt.names = names.into(ast_);
      if (stmt.kind == StmtKind::kState && !lost_ && take(TokenKind::kColon)) {
        stmt.type = type();
      }
      expect(TokenKind::kAssign);
      stmt.value = value_or_error();
      break;
    case StmtKind::kReturn:
    case StmtKind::kExpect:
      stmt.value = value_or_error();
      break;
    case StmtKind::kAssert:
      stmt.value = value_or_error();
      if (take(TokenKind::kComma)) {
        stmt.message = expect_string("a message in double quotes");
      }
      break;
    case StmtKind::kBind:
      break;
  }
  for (const Name& name : ast_[stmt.names]) {
    if (!name) {
      stmt.kind = StmtKind::kError;  // the statement declares a name that is unknown
    }
  }
  stmt.span = from(start);
  return stmt;
}

// Reads the rest of an `input` or a `param`: NAME ":" type, and for a `param` "=" and its initial value.
void Parser::typed_statement(Stmt& stmt) {
  Gather<Name> names(stacks_);
  names.push(expect_new_name(stmt.kind == StmtKind::kInput ? "a name for the input" : "a name for the parameter"));
  stmt.names = names.into(ast_);
  if (!lost_ && !take(TokenKind::kColon)) {
    const bool has_type = at(TokenKind::kName) || at(TokenKind::kLeftBracket);
    const std::string_view name = ast_[stmt.names][0].text;
    expected("`:` and a type",
             has_type ? Help(insertion(":")) : Help("write its type after it, such as {}: f32[N, 64]", name));
  }
  stmt.type = type();
  if (stmt.kind == StmtKind::kParam) {
    expect(TokenKind::kAssign, "`=` and its initial value");
    stmt.value = value_or_error();
  }
}

// Reads a binding: ( NAME | "(" NAME { "," NAME } ")" ) "=" expr
void Parser::binding(Stmt& stmt) {
  Gather<Name> names(stacks_);
  if (at(TokenKind::kLeftParen)) {
    const Token open = current();
    advance();
    stmt.is_tuple = true;
    do {
      names.push(expect_new_name("a name"));
    } while (take(TokenKind::kComma));
    expect_close(open, TokenKind::kRightParen, "`,`");
  } else if (is_reserved(kind()) && kind() >= TokenKind::kIf && ahead().kind != TokenKind::kAssign) {
    reserved_statement();
    return;
  } else if (at(TokenKind::kName) || is_reserved(kind())) {
    const Span start = here();
    names.push(expect_new_name("a name"));
    while (!lost_ && take(TokenKind::kComma)) {
      names.push(expect_new_name("a name"));
      stmt.is_tuple = true;
    }
    if (stmt.is_tuple && !lost_ && at(TokenKind::kAssign)) {
      const Span all = from(start);
      fault("XG0114", all, "several names are bound in brackets", "no brackets",
            replacement("put them around the names", all, {"({})", tokens_.text.substr(all.begin, all.end - all.begin)},
                        true));
      lost_ = false;  // the meaning is clear
    }
    if (!lost_ && !at(TokenKind::kAssign)) {
      const Name name = names.front();
      no_statement(name);
      if (lost_) {
        return;
      }
      names.front() = expect_new_name("a name");  // let k = 8
    }
  } else {
    expected("a statement", {"a statement is a binding, `name = value`, or starts with a word such as `return`"});
    return;
  }
  stmt.kind = StmtKind::kBind;
  stmt.names = names.into(ast_);
  expect(TokenKind::kAssign);
  stmt.value = value_or_error();
}

// Reports a statement whose first word is a name that cannot begin a statement.
void Parser::unknown_statement(const Name& name) {
  std::vector<std::string> words;
  for (const auto& [word, kind] : kStatementWords) {
    words.emplace_back(word);
  }
  fault("XG0114", name.span, {"no statement starts with `{}`", name.text}, "",
        did_you_mean(name.text, words, name.span, {"a binding is written `name = value`"}));
}

// Reads an expression. If it has a fault, returns an error node, so that the names that are bound to it stay known.
ExprId Parser::value_or_error() {
  const Span start = here();
  const ExprId value = expression();
  return lost_ ? error_node(from(start)) : value;
}

Setting Parser::setting() {
  Setting setting;
  const Span start = here();
  if (!at(TokenKind::kName) && !is_reserved(kind())) {
    expected("a setting", {"a setting is written `key = value` or `key { ... }`"});
    return setting;
  }
  if (at_word("source") && ahead().kind == TokenKind::kName) {
    advance();
    setting.kind = SettingKind::kSource;
    setting.name = expect_new_name("a name for the source");
    expect(TokenKind::kAssign);
    setting.value = value_or_error();
    setting.span = from(start);
    return setting;
  }
  if (at_word("moved") &&
      (ahead().kind == TokenKind::kString || ahead().kind == TokenKind::kName || ahead().kind == TokenKind::kNumber)) {
    advance();
    setting.value = class_name("the old name of a class");
    expect(TokenKind::kArrow);
    setting.to = class_name("the new name of the class");
    setting.kind = lost_ ? SettingKind::kError : SettingKind::kMoved;
    setting.span = from(start);
    return setting;
  }
  setting.path = path("a name after the dot");
  if (take(TokenKind::kAssign)) {
    setting.kind = SettingKind::kValue;
    setting.value = value_or_error();
  } else if (!lost_ && (at(TokenKind::kName) || at(TokenKind::kLeftBrace))) {
    if (at(TokenKind::kName)) {
      setting.name = take_name();
    }
    if (!at(TokenKind::kLeftBrace)) {
      expected("`=` or `{`", insertion("{"));
    } else {
      setting.kind = SettingKind::kGroup;
      setting.settings = settings();
    }
  } else if (!lost_ && at(TokenKind::kArrow)) {
    const Span begin{tokens_.file, start.begin, start.begin};
    expected("`=` or `{`", replacement("write `moved` before the old name of a class", begin, "moved "));
  } else if (!lost_) {
    expected("`=` or `{`", at(TokenKind::kColon) ? replacement("a setting is written `key = value`", here(), " =", true)
                                                 : insertion("="));
  }
  setting.span = from(start);
  return setting;
}

// Reads the name of a class: a name or, if it has characters other than letters and digits, a string.
ExprId Parser::class_name(std::string_view what) {
  if (!lost_ && !at(TokenKind::kName) && !at(TokenKind::kString)) {
    expected(what,
             at(TokenKind::kNumber)
                 ? replacement("put a name of digits in double quotes", here(), {"\"{}\"", tokens_.spelling(current())})
                 : Fix{"write a name, in double quotes where it has other characters than letters and digits"});
  }
  return primary();
}

// Ends a setting. Another setting may follow on the same line, since no value continues with a name.
void Parser::end_of_setting() {
  const bool follows =
      at(TokenKind::kName) && (ahead().kind == TokenKind::kAssign || ahead().kind == TokenKind::kLeftBrace);
  if (lost_ || !follows) {
    end_of_statement();
  }
}

}  // namespace xrun::lang
