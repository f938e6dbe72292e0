// The choice of the declarations of a run.
#pragma once

#include "graph/base/diagnostic.h"
#include "lang/elaborate/frontend_options.h"
#include "lang/lower/module_builder.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// Chooses the model, data, training, cluster and schedule of a run: those that --cluster and --schedule name; those of
// the run that --run names, or of the only `run` declaration; otherwise the only declarations of their kinds. Faults
// are added to `diagnostics`; the declarations concerned are missing in the result.
Choice choose_run(const SourceFile& main, const FrontendOptions& options, Loader& loader, Diagnostics& diagnostics);

}  // namespace xrun::lang
