// Computes the layout facts of all tokens in three scans: the kinds of brackets, the spaces between pieces, and the
// line breaks that are kept or forced. Widths are then summed up, so that the width of any range of pieces on one line
// is a difference of two numbers.
// Tests: tests/lang/format/format_test.cpp
#include "lang/format/pieces.h"

#include <algorithm>
#include <span>

#include "graph/os/large_pages.h"
#include "lang/text/lexer.h"

namespace xrun::lang {
namespace {

bool opens(TokenKind kind) {
  return kind == TokenKind::kLeftParen || kind == TokenKind::kLeftBracket || kind == TokenKind::kLeftBrace;
}

bool closes(TokenKind kind) {
  return kind == TokenKind::kRightParen || kind == TokenKind::kRightBracket || kind == TokenKind::kRightBrace;
}

bool is_arithmetic(TokenKind kind) { return kind >= TokenKind::kPlus && kind <= TokenKind::kCaret; }

// Whether a token of this kind can end a value, so that `(`, `[` or `-` after it continues the value.
bool ends_value(TokenKind kind) {
  switch (kind) {
    case TokenKind::kName:
    case TokenKind::kNumber:
    case TokenKind::kString:
    case TokenKind::kTrue:
    case TokenKind::kFalse:
    case TokenKind::kAuto:
    case TokenKind::kNone:
    case TokenKind::kRightParen:
    case TokenKind::kRightBracket:
      return true;
    default:
      return false;
  }
}

// Whether a number is written only with digits: `12`, `16_384`, `0x4E00`.
bool is_plain(const Number& number) {
  const auto is_of_digits = [](char c) { return is_digit(c) || c == '_'; };
  return number.is_whole && number.unit == kNoUnit && (number.is_hex || std::ranges::all_of(number.text, is_of_digits));
}

// The number with its digits in groups of three, as in "16_384". Empty if the number stays as it is written: because it
// is below 10 000, or has a point, an exponent or a multiplier.
std::string grouped(const Number& number) {
  constexpr size_t kFirstGrouped = 5;  // digits
  if (number.text.size() < kFirstGrouped) {
    return "";
  }
  std::string digits;
  for (const char c : number.text) {
    if (c != '_') {
      digits.push_back(c);
    }
  }
  const bool is_decimal = digits.find_first_not_of("0123456789") == std::string::npos;
  if (!is_decimal || digits.size() < kFirstGrouped || digits[0] == '0') {
    return "";
  }
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, '_');
  }
  return digits;
}

}  // namespace

Pieces::Pieces(const Tokens& tokens, const Ast& ast) : source_(tokens.text) {
  reserve_large(pieces_, tokens.tokens.size());
  for (const Token& token : tokens.tokens) {
    if (token.kind == TokenKind::kNewline) {
      continue;
    }
    Piece piece{.kind = token.kind, .begin = token.begin, .end = token.end};
    std::string_view text = tokens.spelling(token);
    if (token.kind == TokenKind::kNumber) {
      const Number& number = ast.numbers[token.literal];
      if (const std::string digits = grouped(number); !digits.empty() && digits != number.text) {
        numbers_.push_back(digits + std::string(text.substr(number.text.size())));
        text = numbers_.back();
        piece.partner = static_cast<uint32_t>(numbers_.size());
      }
      piece.is_plain_number = is_plain(number);
    }
    // Only strings have characters of several bytes.
    piece.width = token.kind == TokenKind::kString ? count_code_points(text) : static_cast<int>(text.size());
    pieces_.push_back(piece);
  }
  find_brackets(ast);
  find_spaces();
  find_breaks(tokens);
  measure();
}

size_t Pieces::at(uint32_t offset, size_t from) const {
  // Each piece takes at least one byte, so there are at most as many pieces between two places as bytes.
  const size_t bytes = offset - std::min(offset, pieces_[from].begin);
  const auto near = std::span(pieces_).subspan(from, std::min(bytes + 1, pieces_.size() - from));
  const auto found = std::ranges::lower_bound(near, offset, {}, &Piece::begin);
  return from + static_cast<size_t>(found - near.begin());
}

// Records what only the tree shows: which words are keywords, and which brackets hold parameters, names or types.
void Pieces::find_keywords_and_types(const Ast& ast) {
  const auto piece_at = [&](uint32_t offset) { return &pieces_[at(offset)]; };
  for (const Stmt& stmt : ast.pool<Stmt>()) {
    if (stmt.kind == StmtKind::kReturn || stmt.kind == StmtKind::kAssert || stmt.kind == StmtKind::kExpect) {
      piece_at(stmt.span.begin)->is_keyword = true;
    } else if (stmt.kind == StmtKind::kBind && stmt.is_tuple) {
      piece_at(stmt.span.begin)->bracket = Bracket::kItems;
    }
  }
  const auto see_type = [&](const Type& type) {
    if (!type.span.valid()) {
      return;
    }
    if (type.argument.valid()) {
      piece_at(type.name.span.end)->bracket = Bracket::kItems;
    } else if (type.has_dims) {
      piece_at(type.name ? type.name.span.end : type.span.begin)->bracket = Bracket::kItems;
    }
  };
  std::ranges::for_each(ast.pool<Type>(), see_type);
  std::ranges::for_each(ast.pool<Param>(), see_type, &Param::type);
  std::ranges::for_each(ast.pool<Stmt>(), see_type, &Stmt::type);
  for (const Decl& decl : ast.decls) {
    if (decl.has_params) {
      piece_at(decl.name.span.end)->bracket = Bracket::kParams;
    }
    if (decl.range.valid()) {
      (piece_at(ast[decl.range].span.begin) - 1)->is_keyword = true;  // `in`
    }
  }
}

bool Pieces::ends_value_at(size_t at) const { return ends_value(pieces_[at].kind) && !pieces_[at].is_keyword; }

void Pieces::find_brackets(const Ast& ast) {
  find_keywords_and_types(ast);
  struct Open {
    uint32_t at;
    uint32_t commas;
  };
  std::vector<Open> open;
  for (uint32_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    if (opens(piece.kind)) {
      open.push_back({i, 0});
      if (piece.bracket != Bracket::kNone) {
        continue;  // known from the tree
      }
      const bool continues = i > 0 && ends_value_at(i - 1);
      piece.bracket = piece.kind == TokenKind::kLeftBrace
                          ? (i > 0 && pieces_[i - 1].kind == TokenKind::kFork ? Bracket::kPipes : Bracket::kOne)
                      : piece.kind == TokenKind::kLeftBracket ? (continues ? Bracket::kItems : Bracket::kElements)
                                                              : (continues ? Bracket::kArgs : Bracket::kOne);
    } else if (piece.kind == TokenKind::kComma && !open.empty()) {
      ++open.back().commas;
    } else if (closes(piece.kind)) {
      const auto [begin, commas] = open.back();
      open.pop_back();
      Piece& opening = pieces_[begin];
      opening.partner = i;
      piece.partner = begin;
      const bool is_tuple = opening.kind == TokenKind::kLeftParen && opening.bracket == Bracket::kOne && commas > 0;
      opening.bracket = is_tuple ? Bracket::kElements : opening.bracket;
      // The comma makes the value a tuple of one item, so it has to stay.
      pieces_[i - 1].is_spare =
          pieces_[i - 1].kind == TokenKind::kComma && may_end_in_comma(opening.bracket) && !(is_tuple && commas == 1);
    }
  }
}

void Pieces::find_spaces() {
  std::vector<Bracket> open{Bracket::kNone};
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    if (closes(piece.kind)) {
      open.pop_back();
    }
    piece.is_prefix = piece.kind == TokenKind::kMinus && !(i > 0 && ends_value_at(i - 1));
    piece.space = i > 0 && has_space(i, open.back());
    const bool behind_operator = i > 0 && is_binary(i - 1);
    const bool behind_comma = i > 0 && pieces_[i - 1].kind == TokenKind::kComma && !has_commas(open.back());
    piece.may_start_line = behind_operator || behind_comma;
    if (opens(piece.kind)) {
      open.push_back(piece.bracket);
    }
  }
}

// Whether the piece is an operator after which a line may be broken. A line is never broken after `^`.
bool Pieces::is_binary(size_t at) const {
  const TokenKind kind = pieces_[at].kind;
  return kind == TokenKind::kAnd || kind == TokenKind::kOr ||
         (kind >= TokenKind::kPlus && kind != TokenKind::kCaret && !pieces_[at].is_prefix);
}

bool Pieces::has_space(size_t at, Bracket inside) const {
  const TokenKind kind = pieces_[at].kind;
  const TokenKind before = pieces_[at - 1].kind;
  switch (kind) {
    case TokenKind::kRightParen:
    case TokenKind::kRightBracket:
    case TokenKind::kComma:
    case TokenKind::kColon:
      return false;
    case TokenKind::kDot:
      return before == TokenKind::kNumber;  // `1 .x` parses, although numbers have no fields; `1.x` would not
    case TokenKind::kLeftParen:
    case TokenKind::kLeftBracket:
      if (ends_value_at(at - 1)) {
        return false;
      }
      break;
    case TokenKind::kRightBrace:
      return before != TokenKind::kLeftBrace;
    default:
      break;
  }
  switch (before) {
    case TokenKind::kLeftParen:
    case TokenKind::kLeftBracket:
    case TokenKind::kDot:
      return false;
    default:
      break;
  }
  if (kind == TokenKind::kAssign || before == TokenKind::kAssign) {
    return inside != Bracket::kArgs;
  }
  if (kind == TokenKind::kRange || before == TokenKind::kRange) {
    return !is_tight_range(kind == TokenKind::kRange ? at : at - 1);
  }
  return !pieces_[at - 1].is_prefix;
}

// Whether a range is written without spaces, as `0..10`: both ends are whole numbers written only with digits.
bool Pieces::is_tight_range(size_t at) const {
  const auto binds = [](TokenKind kind) { return is_arithmetic(kind) || kind == TokenKind::kDot; };
  const bool opens_behind = opens(pieces_[at + 2].kind) && pieces_[at + 2].kind != TokenKind::kLeftBrace;
  return pieces_[at - 1].is_plain_number && pieces_[at + 1].is_plain_number && !binds(pieces_[at - 2].kind) &&
         !binds(pieces_[at + 2].kind) && !opens_behind;
}

void Pieces::find_breaks(const Tokens& tokens) {
  // For each open bracket, whether a line may stay broken before `->`. Inside ( ) and [ ] newlines have no meaning.
  std::vector<bool> keeps{true};
  auto comment = tokens.comments.begin();
  int breaks = 0;
  bool breaks_before = true;  // whether the author has broken the line before this piece
  for (size_t i = 0; i + 1 < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    if (closes(piece.kind)) {
      keeps.pop_back();
    }
    bool is_commented = false;
    for (; comment != tokens.comments.end() && comment->begin < piece.begin; ++comment) {
      is_commented = true;
    }
    const std::string_view gap = tokens.text.substr(piece.end, pieces_[i + 1].begin - piece.end);
    const bool breaks_behind = gap.find('\n') != std::string_view::npos;
    piece.starts_segment = piece.kind == TokenKind::kArrow && keeps.back() && (breaks_before || breaks_behind);
    breaks += is_commented || piece.starts_segment ? 1 : 0;
    piece.breaks = breaks;
    breaks_before = breaks_behind;
    if (opens(piece.kind)) {
      keeps.push_back(piece.kind == TokenKind::kLeftBrace);
    }
  }
  pieces_.back().breaks = breaks + 1;
}

void Pieces::measure() {
  int columns = 0;
  for (Piece& piece : pieces_) {
    columns += piece.is_spare ? 0 : piece.width + (piece.space ? 1 : 0);
    piece.columns = columns;
  }
}

}  // namespace xrun::lang
