// Tokens and trees as stable text: `--emit tokens` and `--emit ast`.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"
#include "lang/syntax/syntax.h"

namespace xrun::lang {

// One token per line: place, kind, spelling. Faults of the lexer go to `diagnostics`.
std::string print_tokens(const SourceMap& sources, int32_t file, Diagnostics& diagnostics);

// The tree as source text with every operator in parentheses, one statement per line, and with documentation comments
// only. A tree without error nodes can be parsed again: parse(print(ast)) prints an equal text. An error node is
// "<error>".
std::string print_ast(const Ast& ast);

// The text of a type in the form of print_ast: "f32[N, 3, 112, 112]".
std::string print_type(const Ast& ast, const Type& type);

}  // namespace xrun::lang
