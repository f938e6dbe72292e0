// Checks the types in all declarations of a file, called or not: names are known, and each type has the dimensions and
// the argument that its kind needs.
#pragma once

#include "lang/syntax/loader.h"
#include "lang/text/faults.h"

namespace xrun::lang {

// Reports XG0303 for types of parameters, results and inputs, and XG0202 for parameters of equal names. Elaboration
// does not report such types again.
void check_types(const SourceFile& file, Diagnostics& diagnostics);

// Whether a type is a type of a head's logits: `sharded` or `cosines`.
bool is_of_heads(std::string_view type);

// Whether a type may bind this name, such as C of `index(C)` and H of [N, H]: it begins with a capital letter.
bool is_dimension_variable(const Expr& expr);

}  // namespace xrun::lang
