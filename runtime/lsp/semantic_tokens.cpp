// Semantic tokens: the words of the lexer, coloured by the meaning of the names.
// Tests: tests/lsp/features_test.cpp, tests/lsp/large_text_test.cpp
#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "lang/text/lexer.h"
#include "runtime/lsp/features.h"

namespace xrun::lsp {
namespace {

// The legend: a token refers to its type by an index, and to each modifier by a bit.
constexpr std::array<const char*, 14> kTypes{"keyword",   "comment",  "string", "number",    "operator",
                                             "function",  "macro",    "class",  "namespace", "variable",
                                             "parameter", "property", "type",   "decorator"};
enum Type : uint32_t {
  kKeyword,
  kComment,
  kString,
  kNumber,
  kSign,
  kFunction,
  kMacro,
  kClass,
  kNamespace,
  kVariable,
  kParameter,
  kProperty,
  kTypeName,
  kDecorator,
};
constexpr std::array<const char*, 3> kModifiers{"declaration", "readonly", "defaultLibrary"};
enum Modifier : uint32_t { kDeclaration = 1, kReadonly = 2, kDefaultLibrary = 4 };

// Words that are keywords where they begin a statement or join the parts of a declaration, and names elsewhere.
const std::set<std::string_view> kSoftWords{"input",  "output", "head",   "param", "state", "return",
                                            "assert", "expect", "source", "use",   "in",    "extends"};

struct Coloured {
  Span at;
  uint32_t type = 0;
  uint32_t modifiers = 0;
};

Coloured of_name(const Occurrence& name) {
  Coloured out{name.at, kVariable, name.declares() ? kDeclaration : 0u};
  switch (name.kind) {
    case NameKind::kOperator:
    case NameKind::kBuiltin:
    case NameKind::kUnknown:
      out.type = kFunction;
      out.modifiers = kDefaultLibrary;
      break;
    case NameKind::kFunction:
    case NameKind::kPointwise:
    case NameKind::kOptimizer:
      out.type = kFunction;
      break;
    case NameKind::kBlock:
      out.type = kMacro;
      break;
    case NameKind::kModel:
    case NameKind::kRunPart:
      out.type = kClass;
      break;
    case NameKind::kImport:
      out.type = kNamespace;
      break;
    case NameKind::kConstant:
    case NameKind::kInput:
      out.modifiers |= kReadonly;
      break;
    case NameKind::kParameter:
    case NameKind::kArgument:
      out.type = kParameter;
      break;
    case NameKind::kDimension:
    case NameKind::kType:
      out.type = kTypeName;
      break;
    case NameKind::kLabel:
      out.type = kDecorator;
      break;
    case NameKind::kSetting:
    case NameKind::kSource:
    case NameKind::kField:
      out.type = kProperty;
      break;
    case NameKind::kBinding:
    case NameKind::kHead:
    case NameKind::kParam:
      break;
  }
  return out;
}

// The type of a token that is not a name with a meaning; nullopt for a token without colour.
std::optional<uint32_t> type_of(const lang::Tokens& tokens, size_t at, bool begins) {
  const lang::Token& token = tokens.tokens[at];
  using enum lang::TokenKind;
  if (token.kind == kName) {
    const std::string_view word = tokens.spelling(token);
    const bool is_word = lang::starts_declaration(tokens, at) || word == "xgraph";
    const bool joins = word == "use" || word == "in" || word == "extends";
    return is_word || ((begins || joins) && kSoftWords.contains(word)) ? std::optional<uint32_t>(kKeyword)
                                                                       : std::nullopt;
  }
  return lang::is_reserved(token.kind)                 ? std::optional<uint32_t>(kKeyword)
         : token.kind == lang::TokenKind::kNumber      ? std::optional<uint32_t>(Type::kNumber)
         : token.kind == lang::TokenKind::kString      ? std::optional<uint32_t>(Type::kString)
         : token.kind == kArrow || token.kind >= kPlus ? std::optional<uint32_t>(kSign)
                                                       : std::nullopt;
}

std::vector<Coloured> coloured(const Analysis& analysis) {
  const lang::Tokens& tokens = analysis.tokens();
  std::vector<Coloured> found;
  for (const Occurrence& name : analysis.names()) {
    found.push_back(of_name(name));
  }
  const size_t names = found.size();
  const auto is_name = [&](const Span& at) {
    const auto end = found.begin() + static_cast<std::ptrdiff_t>(names);
    const auto one = std::lower_bound(found.begin(), end, at.begin,
                                      [](const Coloured& known, uint32_t begin) { return known.at.begin < begin; });
    return one != end && one->at.begin == at.begin;
  };
  bool begins = true;  // the next token is at the start of a statement
  for (size_t i = 0; i < tokens.tokens.size(); ++i) {
    const lang::Token& token = tokens.tokens[i];
    const Span at = tokens.span(token);
    const auto type = type_of(tokens, i, begins);
    if (type && !is_name(at)) {
      found.push_back({at, *type, 0});
    }
    begins = token.kind == lang::TokenKind::kNewline || token.kind == lang::TokenKind::kLeftBrace;
  }
  for (const lang::Comment& comment : tokens.comments) {
    found.push_back({{tokens.file, comment.begin, comment.end}, kComment, 0});
  }
  std::ranges::sort(found, {}, [](const Coloured& one) { return one.at.begin; });
  return found;
}

}  // namespace

Json token_legend() { return {{"tokenTypes", kTypes}, {"tokenModifiers", kModifiers}}; }

// Encodes each token as five numbers: lines and characters after the previous token, length, type, modifiers.
Json semantic_tokens(const Context& context, const Json&) {
  const LineMap& lines = context.analysis().lines();
  Json data = Json::array();
  uint32_t line = 0;
  uint32_t column = 0;
  for (const Coloured& token : coloured(context.analysis())) {
    const uint32_t own_line = lines.line_of(token.at.begin);
    const uint32_t own_column = lines.column(token.at.begin);
    const uint32_t length = utf16_length(lines.text().substr(token.at.begin, token.at.end - token.at.begin));
    if (length == 0 || lines.line_of(token.at.end) != own_line) {
      continue;  // clients do not accept tokens that span several lines
    }
    data.push_back(own_line - line);
    data.push_back(own_line == line ? own_column - column : own_column);
    data.push_back(length);
    data.push_back(token.type);
    data.push_back(token.modifiers);
    line = own_line;
    column = own_column;
  }
  return {{"data", std::move(data)}};
}

}  // namespace xrun::lsp
