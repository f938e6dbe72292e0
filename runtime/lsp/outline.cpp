// The outline of a document: its symbols, and the ranges that can be folded.
// Tests: tests/lsp/features_test.cpp, tests/lsp/large_text_test.cpp
#include <fmt/format.h>
#include <utility>

#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

// SymbolKind of the protocol.
enum class Symbol : int {
  kModule = 2,
  kNamespace = 3,
  kClass = 5,
  kProperty = 7,
  kField = 8,
  kFunction = 12,
  kVariable = 13,
  kConstant = 14,
  kObject = 19,
  kKey = 20,
  kOperator = 25,
  kEvent = 24,
};

Symbol symbol_of(lang::DeclKind kind) {
  using enum lang::DeclKind;
  switch (kind) {
    case kOption:
    case kLet:
      return Symbol::kConstant;
    case kFn:
    case kBlock:
      return Symbol::kFunction;
    case kPointwise:
    case kOptimizer:
      return Symbol::kOperator;
    case kModel:
      return Symbol::kClass;
    case kTest:
      return Symbol::kEvent;
    default:
      return Symbol::kObject;
  }
}

class Symbols {
 public:
  explicit Symbols(const Analysis& analysis) : analysis_(analysis), ast_(analysis.ast()) {}

  Json all() {
    Json list = Json::array();
    for (const lang::Decl& decl : ast_.decls) {
      using enum lang::DeclKind;
      if (decl.kind == kError || decl.kind == kImport || decl.kind == kFrom || decl.kind == kMoved || !has_room()) {
        continue;
      }
      Json one = symbol(title_of(decl), symbol_of(decl.kind), decl.span, decl.name ? decl.name.span : decl.keyword);
      one["detail"] = lang::keyword_of(decl.kind);
      Json inner = Json::array();
      for (const lang::Stmt& stmt : ast_[decl.body]) {
        add_statement(inner, stmt);
      }
      add_settings(inner, decl.settings);
      one["children"] = std::move(inner);
      list.push_back(std::move(one));
    }
    if (left_out_ > 0) {
      const lang::Decl& last = ast_.decls.back();
      list.push_back(symbol(fmt::format("... {} more", left_out_), Symbol::kObject, last.span, last.keyword));
    }
    return list;
  }

 private:
  // Counts a symbol. Returns false beyond kMostShown: such a symbol is only counted.
  bool has_room() {
    ++(shown_ < kMostShown ? shown_ : left_out_);
    return left_out_ == 0;
  }

  std::string title_of(const lang::Decl& decl) const {
    const bool is_text = decl.text.valid() && ast_[decl.text].kind == lang::ExprKind::kString;
    return decl.name                                  ? std::string(decl.name.text)
           : is_text && !ast_.text(decl.text).empty() ? ast_.text(decl.text)
                                                      : std::string(lang::keyword_of(decl.kind));
  }

  Json symbol(std::string name, Symbol kind, const Span& whole, const Span& named) const {
    const bool inside = whole.begin <= named.begin && named.end <= whole.end;
    return {{"name", std::move(name)},
            {"kind", static_cast<int>(kind)},
            {"range", analysis_.lines().range(whole)},
            {"selectionRange", analysis_.lines().range(inside ? named : whole)}};
  }

  void add_statement(Json& list, const lang::Stmt& stmt) {
    using enum lang::StmtKind;
    const bool binds =
        stmt.kind == kInput || stmt.kind == kHead || stmt.kind == kParam || stmt.kind == kState || stmt.kind == kBind;
    for (const lang::Name& name : ast_[stmt.names]) {
      if (binds && name && name.text != "_" && has_room()) {
        list.push_back(symbol(std::string(name.text), stmt.kind == kBind ? Symbol::kVariable : Symbol::kField,
                              stmt.span, name.span));
      }
    }
  }

  void add_settings(Json& list, lang::Run<lang::Setting> settings) {
    for (const lang::Setting& setting : ast_[settings]) {
      std::string name = lang::join_path(ast_[setting.path]);
      name += (name.empty() || !setting.name ? "" : " ") + std::string(setting.name.text);
      if (name.empty() || !has_room()) {
        continue;
      }
      const Span named = setting.path.empty() ? setting.name.span : ast_[setting.path][0].span;
      Json one = symbol(std::move(name), setting.kind == lang::SettingKind::kGroup ? Symbol::kNamespace : Symbol::kKey,
                        setting.span, named);
      Json inner = Json::array();
      add_settings(inner, setting.settings);
      if (!inner.empty()) {
        one["children"] = std::move(inner);
      }
      list.push_back(std::move(one));
    }
  }

  const Analysis& analysis_;
  const lang::Ast& ast_;
  size_t shown_ = 0;
  size_t left_out_ = 0;
};

}  // namespace

Json document_symbols(const Context& context, const Json&) { return Symbols(context.analysis()).all(); }

Json folding_ranges(const Context& context, const Json&) {
  const Analysis& analysis = context.analysis();
  const LineMap& lines = analysis.lines();
  Json ranges = Json::array();
  const auto add = [&](uint32_t first, uint32_t last, const char* kind) {
    if (first < last && ranges.size() < kMostShown) {
      ranges.push_back({{"startLine", first}, {"endLine", last}});
      if (kind != nullptr) {
        ranges.back()["kind"] = kind;
      }
    }
  };
  // Folds brackets. The line of the closing bracket stays visible.
  std::vector<uint32_t> open;
  for (const lang::Token& token : analysis.tokens().tokens) {
    using enum lang::TokenKind;
    const bool opens = token.kind == kLeftBrace || token.kind == kLeftBracket || token.kind == kLeftParen;
    const bool closes = token.kind == kRightBrace || token.kind == kRightBracket || token.kind == kRightParen;
    if (token.unpaired) {
      continue;
    }
    if (opens) {
      open.push_back(lines.line_of(token.begin));
    } else if (closes && !open.empty()) {
      const uint32_t last = lines.line_of(token.begin);
      add(open.back(), last - (last > 0 ? 1 : 0), nullptr);
      open.pop_back();
    }
  }
  // Folds comments on consecutive lines, and imports.
  uint32_t first = 0;
  uint32_t last = 0;
  bool is_run = false;
  for (const lang::Comment& comment : analysis.tokens().comments) {
    const uint32_t line = lines.line_of(comment.begin);
    if (!is_run || line != last + 1) {
      add(first, is_run ? last : first, "comment");
      first = line;
    }
    last = line;
    is_run = true;
  }
  add(first, is_run ? last : first, "comment");
  bool has_imports = false;
  for (const lang::Decl& decl : analysis.ast().decls) {
    if (decl.kind == lang::DeclKind::kImport || decl.kind == lang::DeclKind::kFrom) {
      first = has_imports ? first : lines.line_of(decl.span.begin);
      last = lines.line_of(decl.span.end);
      has_imports = true;
    }
  }
  add(first, has_imports ? last : first, "imports");
  return ranges;
}

}  // namespace xrun::lsp
