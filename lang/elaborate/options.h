// Options: what a file may be given from outside.
#pragma once

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {

// The value of an option is of the declared type and in the declared range.
void check_option(Evaluator& evaluator, const SourceFile& file, const Decl& decl);

}  // namespace xrun::lang
