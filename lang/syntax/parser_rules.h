// The recursive-descent parser, with a method for nearly every rule of docs/reference/language.md, "Grammar". Only
// parser.cpp and the parse_*.cpp next to it include this.
//
// After a fault the parser is `lost_`: every rule returns at once and reports nothing, until the statement, setting or
// declaration that contains the fault has skipped to the next newline at its own brace depth. Whatever could not be
// read is an error node in the tree: an expression, a statement, a setting or a declaration.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lang/syntax/gather.h"
#include "lang/syntax/parser.h"
#include "lang/syntax/syntax.h"
#include "lang/text/faults.h"
#include "lang/text/lexer.h"
#include "lang/text/token.h"

namespace xrun::lang {

class Parser {
 public:
  Parser(Tokens tokens, Faults& faults);

  Ast parse_file();
  Ast parse_params_only();
  Ast parse_value_only();
  Tokens take_tokens() { return std::move(tokens_); }

 private:
  // One level of nesting; `ok` is false beyond kMaxNesting, which is reported.
  class Nest {
   public:
    explicit Nest(Parser& parser) : parser_(parser), ok(parser.enter()) {}
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;
    ~Nest() { --parser_.nesting_; }

   private:
    Parser& parser_;

   public:
    const bool ok;
  };

  // parser.cpp: tokens, faults, recovery.
  const Token& current() const { return tokens_.tokens[at_]; }
  TokenKind kind() const { return current().kind; }
  const Token& ahead() const;
  bool at(TokenKind wanted) const { return kind() == wanted; }
  bool at_word(std::string_view word) const { return at(TokenKind::kName) && tokens_.spelling(current()) == word; }
  Span here() const { return tokens_.span(current()); }
  Span from(const Span& start) const;  // from `start` to the end of the last token read
  void advance();
  bool take(TokenKind wanted);
  bool enter();
  void skip_newlines();
  // Consumes the token, or reports that `what` was expected ("`:` and a type") with a fix that inserts the token.
  bool expect(TokenKind wanted, std::string_view what = {});
  Name expect_name(std::string_view what);
  Name expect_new_name(std::string_view what);  // a name that is declared here: XG0120 if it starts upper-case
  ExprId expect_string(std::string_view what);
  ExprId class_name(std::string_view what);
  // Consumes the closing bracket of `open`, or reports that the bracket or `otherwise` was expected. Nothing is
  // reported if `open` was already reported as never closed.
  bool expect_close(const Token& open, TokenKind closing, std::string_view otherwise = {});
  Name take_name();
  // Reports the current token as unexpected: "expected a value, found `)`".
  Diagnostic* expected(std::string_view what, Help help);
  Diagnostic* fault(const char* code, Span at, Text message, Text label, Help help);
  Fix insertion(std::string_view sign) const;  // inserts a missing sign
  void end_of_statement();
  void recover(int depth);
  bool body_ends(const Token& open);
  void else_on_its_own_line();

  // parse_decl.cpp
  void declarations();
  Decl declaration();
  DeclKind declaration_kind() const;
  void declaration_header(Decl& decl);
  void results(Decl& decl);
  void from_header(Decl& decl);
  void option_header(Decl& decl);
  void settings_header(Decl& decl);
  std::string doc_before(uint32_t begin, std::string* file_doc);

  // parse_type.cpp
  Run<Param> params();
  Param param();
  Type type();

  // parse_body.cpp
  template <class T>
  Run<T> braced(T (Parser::*item)(), void (Parser::*end)());
  Run<Stmt> body();
  Stmt statement();
  void typed_statement(Stmt& stmt);
  void binding(Stmt& stmt);
  void unknown_statement(const Name& name);
  void spoil(Stmt& stmt);
  void spoil(Setting& setting);
  Run<Setting> settings();
  Setting setting();
  void end_of_setting();
  ExprId value_or_error();

  // parse_expr.cpp
  using Rule = ExprId (Parser::*)();
  ExprId from_the_left(Rule operand, std::optional<Op> (*op_of)(TokenKind));
  ExprId prefixed(TokenKind sign, Op op, Rule operand);
  ExprId expression();
  ExprId conditional();
  ExprId braced_expression();
  ExprId disjunction();
  ExprId conjunction();
  ExprId negation();
  ExprId comparison();
  ExprId range();
  ExprId sum();
  ExprId product();
  ExprId unary();
  ExprId power();
  ExprId error_node(Span span);
  ExprId binary(ExprKind kind, Op op, ExprId lhs, Span op_span, ExprId rhs);
  ExprId add(const Expr& expr);
  int height_of(ExprId id) const { return id.valid() ? heights_[id.index] : 0; }

  // parse_primary.cpp
  ExprId postfix();
  ExprId primary();
  ExprId parenthesized();
  ExprId list();
  Run<ExprId> expressions(const Token& open, TokenKind closing, bool may_be_empty, bool& trailing_comma);
  Run<Arg> args();
  void leave_open(const Token& open);
  ExprId leaf(ExprKind kind);

  // parse_foreign.cpp
  ExprId choice_behind(ExprId value);
  ExprId choice_with_then(Span start, ExprId condition);
  Fix choice_in_braces(const Expr& expr) const;
  void skip_indented(uint32_t begin);
  Span unquoted_path() const;
  std::string repetitions(size_t at) const;
  bool foreign_loop();
  void no_statement(const Name& name);
  void reserved_statement();
  DeclKind unknown_declaration();
  ExprId expect_path();
  bool begins_as_ours() const;
  bool has_round_dims(const Name& type) const;
  Fix round_dims() const;

  // parse_stage.cpp
  Run<Stage> stages();
  Stage stage();
  int call_stage(Stage& stage);
  bool take_else();
  Pipe pipe();
  Pipe fragment();
  void fork_pipes(Gather<Pipe>& pipes);
  Run<Name> path(std::string_view what);

  Tokens tokens_;
  Faults& faults_;
  Ast ast_;
  size_t at_ = 0;
  uint32_t last_end_ = 0;  // end of the last token read
  int depth_ = 0;          // number of open braces
  int nesting_ = 0;
  bool lost_ = false;
  bool misses_brace_ = false;  // a `}` of this declaration was reported as missing
  Span suspect_;               // the first `{` closed in column 1 inside another: probably the one that was not closed
  size_t next_comment_ = 0;    // first comment that doc_before has not read
  std::vector<int> heights_;   // heights of ast_.exprs
  int stage_height_ = 0;       // height of the stages just read: highest expression plus levels of pipes

  Pools stacks_;  // stacks of Gather
};

// The words with which declarations start, and a help text that lists them.
std::vector<std::string> declaration_words();
std::string declarations_help();

// The name of a token in messages: "`->`", "a string", "the end of the line".
std::string describe(const Tokens& tokens, const Token& token);

}  // namespace xrun::lang
