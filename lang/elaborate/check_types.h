// Checks the types that declarations write, also of declarations that nothing calls: names are known, and each type has
// the dimensions and the argument that its kind needs.
#pragma once

#include "lang/faults.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// Reports XG0303 for parameters, results and inputs of `file`, and XG0202 for parameters of one name. Elaboration
// does not report such types again.
void check_types(const SourceFile& file, Diagnostics& diagnostics);

// `sharded` and `cosines`: types of what heads give.
bool is_of_heads(std::string_view type);

// C of `index(C)`, H of [N, H]: a name that a type may bind.
bool is_dimension_variable(const Expr& expr);

}  // namespace xrun::lang
