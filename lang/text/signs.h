// The tokens that words and signs stand for.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "lang/text/token.h"

namespace xrun::lang {

inline constexpr size_t kLongestWord = std::string_view("residual").size();

// The kind of a word: a reserved word or a name.
inline TokenKind word_kind(std::string_view word) {
  const auto last = static_cast<unsigned char>(word.back());
  if (word.size() < 2 || word.size() > kLongestWord || last < 'a' || last > 'z') {
    return TokenKind::kName;
  }
  for (TokenKind kind = TokenKind::kTrue; is_reserved(kind); kind = next(kind)) {
    if (text_of(kind) == word) {
      return kind;
    }
  }
  return TokenKind::kName;
}

// The signs that begin with one ASCII character; longer signs come first.
struct Signs {
  TokenKind kinds[4] = {};
  int count = 0;
};

constexpr std::array<Signs, 128> signs_by_first() {
  std::array<Signs, 128> table{};
  for (size_t length = 3; length > 0; --length) {
    for (TokenKind kind = TokenKind::kLeftParen; kind <= TokenKind::kGreaterEqual; kind = next(kind)) {
      if (text_of(kind).size() == length) {
        Signs& signs = table[static_cast<size_t>(text_of(kind)[0])];
        signs.kinds[signs.count++] = kind;
      }
    }
  }
  return table;
}

inline constexpr std::array<Signs, 128> kSigns = signs_by_first();

// The longest sign at the start of `text`; kBad if there is no sign.
inline TokenKind sign_at(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  for (int i = 0; first < kSigns.size() && i < kSigns[first].count; ++i) {
    if (text.starts_with(text_of(kSigns[first].kinds[i]))) {
      return kSigns[first].kinds[i];
    }
  }
  return TokenKind::kBad;
}

}  // namespace xrun::lang
