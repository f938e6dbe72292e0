// Converts tokens to a syntax tree, by recursive descent with one token of look-ahead beyond the current one
// (docs/reference/language.md, "Grammar").
#pragma once

#include <cstdint>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "lang/syntax/syntax.h"
#include "lang/text/token.h"

namespace xrun::lang {

// The deepest nesting of brackets, prefix signs, `^` and else-ifs. Deeper nesting is rejected with XG0106, so that
// recursion over a tree cannot overflow the stack. A chain of operators such as `a + a + a + ...` makes a high tree
// without nesting, so the height of an expression is limited to kMaxHeight nodes.
inline constexpr int kMaxNesting = 64;
inline constexpr int kMaxHeight = 512;

// Parses a whole file. Every independent fault is reported (XG01xx) and leaves an error node; time and memory are
// linear in the size of the file.
Ast parse(const SourceMap& sources, int32_t file, Diagnostics& diagnostics);

// A parsed file with its tokens, which locate the text between the nodes. The numbers and strings of the tokens are in
// the tree.
struct ParsedFile {
  Tokens tokens;
  Ast ast;
};
ParsedFile parse_with_tokens(const SourceMap& sources, int32_t file, Diagnostics& diagnostics);

// Parses a text that is only a parameter list, "(x: [N, C, H, W], width: int, k: int = 1)", into Ast::params:
// signatures of operators and readers.
Ast parse_params(const SourceMap& sources, int32_t file, Diagnostics& diagnostics);

// Parses a text that is only an expression, into Ast::value: the value of `--set key=`.
Ast parse_value(const SourceMap& sources, int32_t file, Diagnostics& diagnostics);

}  // namespace xrun::lang
