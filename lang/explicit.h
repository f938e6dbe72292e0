// The text of a file with every default written out: `xrun show --explicit`.
#pragma once

#include <string>

#include "graph/base/source.h"
#include "lang/facts.h"
#include "lang/frontend.h"

namespace xrun::lang {

// The main file of a check, not yet laid out (lang/format/format.h), with the settings and arguments that it leaves
// open: settings that its run has chosen or computed, such as `norm_rows`; constant defaults in declarations that the
// run does not name; and arguments of operators, readers, stages, optimizers, curves and words of settings. Defaults
// that depend on earlier text stay open: settings of `groups`, and parameters of the file's own blocks. The text checks
// like the file, with an equal math digest. REQUIRES: the check that returned `checked` had FrontendOptions::facts =
// &facts, and its options set nothing.
std::string explicit_text(const CheckedFile& checked, const Facts& facts, const SourceMap& sources);

}  // namespace xrun::lang
