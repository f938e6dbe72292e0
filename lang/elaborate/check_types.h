// Types as declarations write them: their names are known and they have what their kind needs, whether or not anything
// calls what they stand in.
#pragma once

#include "lang/faults.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// Reports XG0303 for parameters, results and inputs of `file`, and XG0202 for parameters of one name. Who expands a
// declaration later stays silent about such types.
void check_types(const SourceFile& file, Diagnostics& diagnostics);

// C of `index(C)`, H of [N, H]: a name that a type may bind.
bool is_dimension_variable(const Expr& expr);

}  // namespace xrun::lang
