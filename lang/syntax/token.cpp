#include "lang/syntax/token.h"

namespace xrun::lang {

std::string_view text_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::kEnd:
      return "the end of the file";
    case TokenKind::kNewline:
      return "the end of the line";
    case TokenKind::kBad:
      return "characters that the language does not have";
    case TokenKind::kName:
      return "a name";
    case TokenKind::kNumber:
      return "a number";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kTrue:
      return "true";
    case TokenKind::kFalse:
      return "false";
    case TokenKind::kAuto:
      return "auto";
    case TokenKind::kNone:
      return "none";
    case TokenKind::kAnd:
      return "and";
    case TokenKind::kOr:
      return "or";
    case TokenKind::kNot:
      return "not";
    case TokenKind::kIf:
      return "if";
    case TokenKind::kElse:
      return "else";
    case TokenKind::kRepeat:
      return "repeat";
    case TokenKind::kResidual:
      return "residual";
    case TokenKind::kFork:
      return "fork";
    case TokenKind::kAs:
      return "as";
    case TokenKind::kLeftParen:
      return "(";
    case TokenKind::kRightParen:
      return ")";
    case TokenKind::kLeftBracket:
      return "[";
    case TokenKind::kRightBracket:
      return "]";
    case TokenKind::kLeftBrace:
      return "{";
    case TokenKind::kRightBrace:
      return "}";
    case TokenKind::kComma:
      return ",";
    case TokenKind::kColon:
      return ":";
    case TokenKind::kArrow:
      return "->";
    case TokenKind::kAssign:
      return "=";
    case TokenKind::kDot:
      return ".";
    case TokenKind::kRange:
      return "..";
    case TokenKind::kEllipsis:
      return "...";
    case TokenKind::kPlus:
      return "+";
    case TokenKind::kMinus:
      return "-";
    case TokenKind::kStar:
      return "*";
    case TokenKind::kSlash:
      return "/";
    case TokenKind::kSlashSlash:
      return "//";
    case TokenKind::kPercent:
      return "%";
    case TokenKind::kCaret:
      return "^";
    case TokenKind::kEqual:
      return "==";
    case TokenKind::kNotEqual:
      return "!=";
    case TokenKind::kLess:
      return "<";
    case TokenKind::kLessEqual:
      return "<=";
    case TokenKind::kGreater:
      return ">";
    case TokenKind::kGreaterEqual:
      return ">=";
  }
  return {};
}

}  // namespace xrun::lang
