// Files and declarations: the edition line, headers and documentation comments.
// Tests: tests/lang/syntax/parser_test.cpp
#include <algorithm>
#include <fmt/ranges.h>

#include "lang/syntax/parser_rules.h"

namespace xrun::lang {
namespace {

constexpr int kEdition = 1;

// The type of an option whose value is this literal; empty if the value is not a literal.
std::string_view option_type_of(const Ast& ast, ExprId id) {
  const Expr& written = ast[id];
  const Expr& value = written.kind == ExprKind::kUnary ? ast[written.lhs] : written;
  return value.kind == ExprKind::kNumber   ? (ast.numbers[value.literal].whole_in_base() ? "int" : "float")
         : value.kind == ExprKind::kBool   ? "bool"
         : value.kind == ExprKind::kString ? "str"
                                           : "";
}

// Whether the name, path or title that identifies the declaration is missing.
bool lacks_identity(const Decl& decl) {
  switch (decl.kind) {
    case DeclKind::kImport:
    case DeclKind::kFrom:
    case DeclKind::kTest:
      return !decl.text.valid();
    case DeclKind::kMoved:
      return !decl.text.valid() || !decl.to.valid();
    default:
      return (names_a_value(decl.kind) || decl.kind == DeclKind::kModel) && !decl.name;
  }
}

}  // namespace

std::vector<std::string> declaration_words() {
  std::vector<std::string> words;
  for (DeclKind kind = DeclKind::kImport; kind <= DeclKind::kMoved; kind = next(kind)) {
    words.emplace_back(keyword_of(kind));
  }
  return words;
}

std::string declarations_help() {
  return fmt::format("declarations start with {}", fmt::join(declaration_words(), " "));
}

Ast Parser::parse_file() {
  if (tokens_.text.size() > kMaxFileBytes) {
    return std::move(ast_);  // the lexer has reported the fault
  }
  skip_newlines();
  if (at_word("xgraph") && ahead().kind == TokenKind::kNumber) {
    const Span line{tokens_.file, here().begin, ahead().end};
    const Number& number = ast_.numbers[ahead().literal];
    advance();
    advance();
    last_end_ = line.end;
    if (number.is_whole && number.whole == kEdition && number.unit == kNoUnit && !number.is_hex) {
      ast_.edition = kEdition;
    } else {
      faults_.error("XG0112", line,
                    {"edition `{}` is not known; this xrun reads `xgraph 1`",
                     tokens_.text.substr(line.begin, line.end - line.begin)},
                    "", replacement("write the edition that it reads, or take a newer xrun", line, "xgraph 1"));
    }
    end_of_statement();
    if (lost_) {
      recover(0);
    }
  } else {
    const Span start{tokens_.file, current().begin, current().begin};
    faults_.error("XG0112", start, "the file does not start with `xgraph 1`", "the edition is missing",
                  replacement("write the edition first", {tokens_.file, 0, 0}, "xgraph 1\n\n", begins_as_ours()));
    if (at_word("xgraph")) {
      recover(0);
    }
  }
  declarations();
  return std::move(ast_);
}

void Parser::declarations() {
  while (!at(TokenKind::kEnd)) {
    if (at(TokenKind::kNewline) || (at(TokenKind::kRightBrace) && current().unpaired)) {
      advance();
      continue;
    }
    if (at(TokenKind::kRightBrace)) {
      advance();  // skips the partner of a bracket that was skipped
      depth_ = 0;
      continue;
    }
    depth_ = 0;
    suspect_ = {};
    misses_brace_ = false;
    const size_t before = at_;
    Decl decl = declaration();
    end_of_statement();
    if (lost_) {
      decl.has_fault = true;
      recover(0);
    }
    if (at_ == before) {
      advance();  // at least one token is skipped, so that the loop ends
    }
    decl.span = from(decl.keyword);
    if (decl.has_fault && lacks_identity(decl)) {
      decl.kind = DeclKind::kError;
    }
    ast_.decls.push_back(std::move(decl));
  }
}

DeclKind Parser::declaration_kind() const {
  return at(TokenKind::kName) ? kind_of(tokens_.spelling(current())) : DeclKind::kError;
}

Decl Parser::declaration() {
  Decl decl;
  decl.kind = declaration_kind();
  decl.keyword = here();
  decl.doc = doc_before(here().begin, ast_.decls.empty() ? &ast_.doc : nullptr);
  if (decl.kind == DeclKind::kError) {
    decl.kind = unknown_declaration();
    if (decl.kind == DeclKind::kError) {
      return decl;
    }
  }
  advance();
  declaration_header(decl);
  if (!has_body(decl.kind) && !has_settings(decl.kind)) {
    return decl;
  }
  if (lost_) {
    // The body is read nevertheless, since it may have faults with other causes.
    decl.has_fault = true;
    lost_ = false;
    while (!at(TokenKind::kLeftBrace) && !at(TokenKind::kNewline) && !at(TokenKind::kEnd)) {
      advance();
    }
    if (!at(TokenKind::kLeftBrace)) {
      return decl;
    }
  }
  if (has_body(decl.kind)) {
    decl.body = body();
  } else {
    decl.settings = settings();
  }
  return decl;
}

void Parser::declaration_header(Decl& decl) {
  switch (decl.kind) {
    case DeclKind::kImport:
      decl.text = expect_path();
      if (take(TokenKind::kAs)) {
        decl.name = expect_new_name("a name for the import");
      }
      break;
    case DeclKind::kFrom:
      from_header(decl);
      break;
    case DeclKind::kOption:
      option_header(decl);
      break;
    case DeclKind::kLet:
      decl.name = expect_new_name("a name");
      expect(TokenKind::kAssign);
      decl.value = value_or_error();
      break;
    case DeclKind::kFn:
    case DeclKind::kPointwise:
      decl.name = expect_new_name("a name for the function");
      decl.params = params();
      decl.has_params = true;
      if (at(TokenKind::kLeftBrace)) {
        expected("`=`",
                 {"a function is one expression, without braces or `return`: {} f(x) = 2 * x", keyword_of(decl.kind)});
      } else {
        expect(TokenKind::kAssign);
      }
      decl.value = value_or_error();
      break;
    case DeclKind::kOptimizer:
    case DeclKind::kBlock:
    case DeclKind::kModel:
      decl.name = expect_new_name("a name for the " + std::string(keyword_of(decl.kind)));
      if (decl.kind != DeclKind::kModel || at(TokenKind::kLeftParen)) {
        decl.params = params();
        decl.has_params = true;
      }
      if (decl.kind != DeclKind::kOptimizer && at(TokenKind::kArrow)) {
        results(decl);
      }
      break;
    case DeclKind::kTest:
      decl.text = expect_string("a title in double quotes");
      break;
    case DeclKind::kMoved:
      decl.text = expect_string("the old name in double quotes");
      expect(TokenKind::kArrow);
      decl.to = expect_string("the new name in double quotes");
      break;
    default:
      settings_header(decl);
      break;
  }
}

// Reads the rest of `from "FILE" use NAME { "," NAME }`.
void Parser::from_header(Decl& decl) {
  decl.text = expect_path();
  if (!lost_ && !at_word("use")) {
    const bool other_word = at_word("import");  // the meaning is clear, so the names are read
    expected("`use` and names", other_word ? replacement("the word is `use`", here(), "use") : insertion("use"));
    if (!other_word) {
      return;
    }
    lost_ = false;
  }
  if (!lost_) {
    advance();
  }
  Gather<Name> names(stacks_);
  do {
    if (const Name name = expect_name("a name of that file")) {
      names.push(name);
    }
  } while (take(TokenKind::kComma));
  decl.names = names.into(ast_);
}

// Reads the results of a block: "->" type { "," type }. A model names its results in its body instead.
void Parser::results(Decl& decl) {
  const Span start = here();
  const uint32_t behind = last_end_;
  advance();
  Gather<Type> types(stacks_);
  do {
    types.push(type());
  } while (take(TokenKind::kComma));
  if (decl.kind == DeclKind::kBlock) {
    decl.results = types.into(ast_);
  } else if (!lost_) {
    fault("XG0110", from(start), "a model has no result types", "its results have names",
          replacement("leave them out, and name each result in the body: output logits",
                      {tokens_.file, behind, last_end_}, ""));
    lost_ = false;  // the body is still read
  }
}

// Reads "option" NAME ":" NAME [ "=" expr ] [ "in" expr ].
void Parser::option_header(Decl& decl) {
  decl.name = expect_new_name("a name for the option");
  Diagnostic* untyped = nullptr;
  if (!lost_ && at(TokenKind::kAssign)) {
    untyped = expected("`:` and a type: int, float, bool or str", "write it after the name");
    lost_ = false;  // the value is still read
  } else {
    expect(TokenKind::kColon, "`:` and a type: int, float, bool or str");
    decl.type_name = expect_name("a type: int, float, bool or str");
  }
  const Span behind{tokens_.file, last_end_, last_end_};
  if (take(TokenKind::kAssign)) {
    decl.value = value_or_error();
  }
  if (const std::string_view type = untyped != nullptr ? option_type_of(ast_, decl.value) : ""; !type.empty()) {
    untyped->fixes = {replacement("write it after the name", behind, {": {}", type}, true)};
  }
  if (!lost_ && at_word("in")) {
    advance();
    decl.range = value_or_error();
  }
}

// Reads [ NAME ] [ "extends" NAME ].
void Parser::settings_header(Decl& decl) {
  const auto at_extends = [&] { return at_word("extends") && ahead().kind == TokenKind::kName; };
  if (!at(TokenKind::kLeftBrace) && !at_extends()) {
    decl.name = expect_new_name("a name or `{`");
  }
  if (!lost_ && at_extends()) {
    advance();
    decl.base = take_name();
  }
}

// The text of the ## lines directly before the declaration at `begin`. If a blank line separates the first ## lines of
// the file from the text after them, they document the file: they are stored in `file_doc`, unless it is null.
std::string Parser::doc_before(uint32_t begin, std::string* file_doc) {
  std::string doc;
  bool file_doc_taken = false;
  uint32_t end = 0;  // end of the last comment; plain comments do not separate ## lines from the declaration
  const std::vector<Comment>& comments = tokens_.comments;
  const auto is_blank_between = [&](uint32_t a, uint32_t b) {
    const std::string_view gap = tokens_.text.substr(a, b - a);
    return std::count(gap.begin(), gap.end(), '\n') > 1;
  };
  const auto close_group = [&](uint32_t next) {
    if (!doc.empty() && is_blank_between(end, next)) {
      if (file_doc != nullptr && !file_doc_taken) {
        *file_doc = doc;
        file_doc_taken = true;
      }
      doc.clear();
    }
  };
  for (; next_comment_ < comments.size() && comments[next_comment_].end <= begin; ++next_comment_) {
    const Comment& comment = comments[next_comment_];
    if (comment.begin < last_end_) {
      continue;
    }
    close_group(comment.begin);
    end = comment.end;
    if (!comment.is_doc) {
      continue;
    }
    std::string_view line = tokens_.text.substr(comment.begin + 2, comment.end - comment.begin - 2);
    line.remove_prefix(line.starts_with(' ') ? 1 : 0);
    doc += doc.empty() ? "" : "\n";
    doc += line;
  }
  close_group(begin);
  return doc;
}

}  // namespace xrun::lang
