// The text of a file with every default written out: `xrun show --explicit`.
#pragma once

#include <string>

#include "graph/base/source.h"
#include "lang/elaborate/facts.h"
#include "lang/frontend.h"

namespace xrun::lang {

// The main file of a check with the values that it leaves open written out, not yet formatted (lang/format/format.h).
// These are added:
//   - settings that the run has chosen or computed, such as `norm_rows`
//   - constant defaults of settings in declarations that the run does not name
//   - default arguments of operators, readers, stages, optimizers, curves and words of settings
// Defaults that depend on earlier text stay open: settings of `groups`, and parameters of the file's own blocks. The
// new text passes the check with an equal math digest. REQUIRES: the check that returned `checked` had
// FrontendOptions::facts = &facts, and its options set nothing.
std::string explicit_text(const CheckedFile& checked, const Facts& facts, const SourceMap& sources);

}  // namespace xrun::lang
