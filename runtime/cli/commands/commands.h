// The commands that are functions of their parsed arguments, one file each. They return the exit code.
#pragma once

#include "runtime/cli/console/options.h"

namespace xrun::cli {

int run_check(const GlobalOptions& options, const CheckArgs& args);
int run_fmt(const GlobalOptions& options, const FmtArgs& args);
int run_fix(const GlobalOptions& options, const FixArgs& args);
int run_lsp();
int run_explain(const GlobalOptions& options, const ExplainArgs& args);
int run_plan(const GlobalOptions& options, const PlanArgs& args);
int run_show(const GlobalOptions& options, const ShowArgs& args);
int run_train(const GlobalOptions& options, const TrainArgs& args);
int run_eval(const GlobalOptions& options, const EvalArgs& args);
int run_predict(const GlobalOptions& options, const PredictArgs& args);
int run_doctor(const GlobalOptions& options);

}  // namespace xrun::cli
