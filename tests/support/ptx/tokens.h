// Tokens of a PTX text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"

namespace xrun::ptx {

enum class TokenKind {
  kWord,    // identifiers, directives, opcodes with modifiers: `%r1`, `.reg`, `ld.global.v4.f32`, `$L__BB0_1`
  kNumber,  // an integer
  kFloat,   // 0f3F800000, 0d3FF0000000000000, 1.5
  kString,
  kSign,  // one character
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // a part of the PTX text, which must outlive the token
  uint64_t bits = 0;      // value of a number; bits of an f32 or f64
  int float_bits = 0;     // 32 or 64 for kFloat
  int line = 0;
};

// The error for a fault of a PTX text, with the line and, if there is one, a fix.
Error text_error(int line, std::string cause, std::string help = "");

// Splits a text into tokens; the last one is kEnd. Errors: a text of more than 16 MiB, unknown characters, open
// comments and strings, numbers of more than 64 bits.
Result<std::vector<Token>> tokens_of(std::string_view text);

}  // namespace xrun::ptx
