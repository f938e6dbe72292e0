// The parser of PTX: from tokens to a module whose kernels have statements but no decoded instructions.
#pragma once

#include <vector>

#include "tests/support/ptx/ptx_module.h"
#include "tests/support/ptx/tokens.h"

namespace xrun::ptx {

// A position in the tokens of a text, with the steps that all rules of the grammar share.
class Cursor {
 public:
  explicit Cursor(const std::vector<Token>& tokens) : tokens_(tokens) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool at_word(std::string_view text) const { return peek().kind == TokenKind::kWord && peek().text == text; }
  bool at_sign(char sign) const { return peek().kind == TokenKind::kSign && peek().text[0] == sign; }
  // Moves past the sign if it is the next token.
  bool accept(char sign);
  Status expect(char sign);
  Result<uint64_t> number();
  Result<std::string_view> word(const char* what);
  // Moves past a block in braces.
  Status skip_block();
  Error error(std::string cause, std::string help = "") const;

 private:
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
};

// Parses the statements of a kernel from its opening to its closing brace (statements.cpp).
Status parse_body(Cursor& at, std::string_view text, Kernel& kernel);

// Parses a declaration of a variable after its space: `.align 16 .b8 rows[9216];` (declarations.cpp). A parameter has
// no initial values and no semicolon.
Result<Variable> parse_variable(Cursor& at, Space space, uint64_t& bytes_left);

// Parses a whole text into `module`, whose `text` is set (ptx_parser.cpp).
Status parse(Module& module);

}  // namespace xrun::ptx
