// The tokens of a file with what their layout needs: spaces, widths, partners of brackets, places for line breaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lang/syntax/syntax.h"
#include "lang/text/token.h"

namespace xrun::lang {

// The width of a line in canonical layout.
inline constexpr int kLineWidth = 100;

// The content of a pair of brackets, which decides how it breaks.
enum class Bracket : uint8_t {
  kNone,      // not a bracket
  kOne,       // ( ) around one expression; a stage or a value in { }
  kItems,     // dimensions, indices, names: a comma after the last one is not allowed
  kParams,    // parameters, with spaces around `=`; in this and the next kinds a comma may end the list
  kArgs,      // arguments
  kElements,  // elements of a list or a tuple
  kPipes,     // pipes of a fork, each on its own line
};
constexpr bool has_commas(Bracket bracket) { return bracket >= Bracket::kItems; }
constexpr bool may_end_in_comma(Bracket bracket) { return bracket >= Bracket::kParams; }

// One token with its layout. It is kept as small as possible: a file of 4 MiB has millions of pieces, and memory costs
// more time than arithmetic.
struct Piece {
  TokenKind kind = TokenKind::kEnd;
  Bracket bracket = Bracket::kNone;  // kind of an opening bracket
  bool space : 1 = false;            // space before it, unless it starts a line
  bool starts_segment : 1 = false;   // an arrow before which the author broke the line, to be kept
  bool may_start_line : 1 = false;   // after a binary operator, or after a comma outside brackets
  bool is_spare : 1 = false;         // a comma after the last item, left out if the items are on one line
  bool is_keyword : 1 = false;       // `return`, `assert`, `expect`, `in`: a bracket after it starts a value
  bool is_prefix : 1 = false;        // the `-` of a negative value
  bool is_plain_number : 1 = false;  // a whole number written only with digits
  uint32_t begin = 0;                // byte offsets in the file
  uint32_t end = 0;
  uint32_t partner = 0;  // bracket: index of the other one; number whose digits are grouped anew: its place in
                         // Pieces from 1
  int width = 0;         // width of the piece in columns
  int columns = 0;       // columns of all pieces up to the end of this one, in one line
  int breaks = 0;        // forced line breaks up to the start of this one: kept ones, and those after comments
};

// The pieces are the tokens without newlines; the last one is kEnd.
class Pieces {
 public:
  // REQUIRES: `ast` was parsed from `tokens` without an error, and outlives the pieces as the text does.
  Pieces(const Tokens& tokens, const Ast& ast);

  const Piece& operator[](size_t at) const { return pieces_[at]; }
  // The text in the layout: numbers have their digits in groups.
  std::string_view text(const Piece& piece) const {
    const bool is_new = piece.kind == TokenKind::kNumber && piece.partner > 0;
    return is_new ? numbers_[piece.partner - 1] : source_.substr(piece.begin, piece.end - piece.begin);
  }
  // The index of the first piece that starts at or after `offset`. REQUIRES: piece number `from` is not after it.
  size_t at(uint32_t offset, size_t from = 0) const;

  // Columns of the pieces [a, b) in one line, without the space before the first one. REQUIRES: a < b.
  int width(size_t a, size_t b) const { return pieces_[b - 1].columns - pieces_[a].columns + pieces_[a].width; }
  // Whether a line break is forced between the pieces [a, b).
  bool must_break(size_t a, size_t b) const { return pieces_[b - 1].breaks != pieces_[a].breaks; }
  // The piece that follows `at` on the same level of brackets: for an opening bracket, the piece after its partner.
  size_t next(size_t at) const { return (pieces_[at].bracket == Bracket::kNone ? at : pieces_[at].partner) + 1; }

 private:
  void find_keywords_and_types(const Ast& ast);
  void find_brackets(const Ast& ast);
  void find_spaces();
  void find_breaks(const Tokens& tokens);
  void measure();
  bool ends_value_at(size_t at) const;
  bool is_binary(size_t at) const;
  bool has_space(size_t at, Bracket inside) const;
  bool is_tight_range(size_t at) const;

  std::vector<Piece> pieces_;
  std::string_view source_;
  std::deque<std::string> numbers_;  // texts of numbers whose digits are grouped anew
};

}  // namespace xrun::lang
