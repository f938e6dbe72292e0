// Options: values of a file that --set may replace.
#pragma once

#include "lang/elaborate/evaluator.h"

namespace xrun::lang {

// Reports an option whose value is not of the declared type or not in the declared range.
void check_option(Evaluator& evaluator, const SourceFile& file, const Decl& decl);

}  // namespace xrun::lang
