// The commands that are functions of their parsed arguments, one file each. They return the exit code, or the failure
// that ends them.
#pragma once

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"

namespace xrun::cli {

Outcome<int> run_check(const GlobalOptions& options, const CheckArgs& args);
Outcome<int> run_fmt(const GlobalOptions& options, const FmtArgs& args);
Outcome<int> run_fix(const GlobalOptions& options, const FixArgs& args);
Outcome<int> run_lsp();
Outcome<int> run_explain(const GlobalOptions& options, const ExplainArgs& args);
Outcome<int> run_plan(const GlobalOptions& options, const PlanArgs& args);
Outcome<int> run_show(const GlobalOptions& options, const ShowArgs& args);
Outcome<int> run_train(const GlobalOptions& options, const TrainArgs& args);
Outcome<int> run_eval(const GlobalOptions& options, const EvalArgs& args);
Outcome<int> run_predict(const GlobalOptions& options, const PredictArgs& args);
Outcome<int> run_export(const GlobalOptions& options, const ExportArgs& args);
Outcome<int> run_doctor(const GlobalOptions& options);

}  // namespace xrun::cli
