// `xrun show`: prints a model, a plan, a checkpoint, or the log or directory of a run. `--emit` prints an intermediate
// result on the way from the text to the program.
// Tests: tests/runtime/cli/commands/command_test.cpp, tests/cases/command_words_test.cpp
#include <filesystem>

#include "graph/base/utf8.h"
#include "graph/print.h"
#include "lang/elaborate/facts.h"
#include "lang/explicit.h"
#include "lang/format/format.h"
#include "lang/print_module.h"
#include "lang/syntax/parser.h"
#include "lang/syntax/print_syntax.h"
#include "ops/op.h"
#include "planner/plan_file.h"
#include "planner/report/diff.h"
#include "planner/report/model_summary.h"
#include "runtime/checkpoint/tensors/checkpoint.h"
#include "runtime/checkpoint/tensors/describe.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/show/log_report.h"
#include "runtime/cli/show/plan_output.h"
#include "runtime/cli/show/run_directory.h"
#include "runtime/formats/files.h"

namespace xrun::cli {
namespace {

// Prints tokens or the syntax tree. These need no resolved names, so files with errors are also shown.
Outcome<int> show_syntax(const ShowArgs& args, const Console& console) {
  constexpr Bytes kMost = 4 * kMiB + 1;  // one byte above the limit, so that the lexer sees a file that is too large
  XRUN_ASSIGN(const auto bytes, runtime::read_file(args.file, kMost));
  SourceMap sources;
  const int32_t file = sources.add(args.file, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  Diagnostics diagnostics;
  if (args.emit == "tokens") {
    console.out(lang::print_tokens(sources, file, diagnostics));
  } else {
    console.out(lang::print_ast(lang::parse(sources, file, diagnostics)));
  }
  if (diagnostics.has_errors()) {
    return Failure(std::move(diagnostics), std::move(sources));
  }
  console.report(diagnostics, sources);
  return 0;
}

Outcome<int> show_module(const GlobalOptions& options, const ShowArgs& args, const Console& console) {
  XRUN_ASSIGN(const LoadedModel model, load_model(args.file, options, console, false));
  const Module& module = model.file.module;
  if (args.emit == "checked") {
    console.out(lang::print_module(module, model.file.run));
    return 0;
  }
  if (args.emit == "module" || !module.has_train) {
    console.out(print(module.graph));
    return 0;
  }
  XRUN_TRY(check_complete(model, true));
  XRUN_ASSIGN(const PreparedModel prepared,
              with_sources(prepare_model(module, model.file.run.figures, options, console), model.sources));
  console.out(print(prepared.training.graph));
  return 0;
}

Outcome<int> show_explicit(const GlobalOptions& options, const ShowArgs& args, const Console& console) {
  lang::Facts facts;
  XRUN_ASSIGN(LoadedModel model, load_model(args.file, options, console, false, nullptr, &facts));
  Diagnostics diagnostics;
  const std::string written = lang::explicit_text(model.file, facts, model.sources);
  const auto text = lang::format(args.file, written, model.sources, diagnostics);
  if (!text) {
    return Failure(std::move(diagnostics), std::move(model.sources));
  }
  console.report(diagnostics, model.sources);
  console.out(*text);
  return 0;
}

bool is_log(const std::string& path) { return path.ends_with(".jsonl"); }

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

// Shows the shapes and sizes of a model without `train` or `data`, which cannot be planned. Returns false if the model
// can be planned.
Outcome<bool> show_bare_model(const GlobalOptions& options, const ShowArgs& args, const Console& console) {
  if (is_plan_file(args.file) || is_plan_format(options.format) || !args.emit.empty() || args.gantt ||
      (!args.table.empty() && args.table != "layers")) {
    return false;
  }
  const auto quiet = read_quietly(args.file, options);
  if (!quiet || quiet->module.model.empty() || (quiet->module.has_train && quiet->module.has_data)) {
    return false;  // planning follows and reports the errors
  }
  XRUN_ASSIGN(const LoadedModel model, load_model(args.file, options, console, false));
  const Module& module = model.file.module;
  console.out(console.json() ? planner::model_json(module, args.depth) : planner::model_text(module, args.depth));
  return true;
}

// Rejects flags that contradict one another or do not fit the file.
Status check_request(const GlobalOptions& options, const ShowArgs& args, bool json) {
  const bool checkpoint = runtime::is_checkpoint(args.file);
  const bool directory = !checkpoint && is_directory(args.file);
  const std::string flag = !args.emit.empty()    ? "--emit"
                           : !args.table.empty() ? "--table"
                           : args.gantt          ? "--gantt"
                           : !args.diff.empty()  ? "--diff"
                           : args.write_defaults ? "--explicit"
                                                 : "";
  const int flags = (args.emit.empty() ? 0 : 1) + (args.table.empty() ? 0 : 1) + (args.gantt ? 1 : 0) +
                    (args.diff.empty() ? 0 : 1) + (args.write_defaults ? 1 : 0);
  const auto fault = [](std::string message, std::string help) {
    return Error{ErrorKind::kUsage, "XG0906", std::move(message), std::move(help), {}};
  };
  if (flags > 1) {
    return fault("`--emit`, `--table`, `--gantt`, `--diff` and `--explicit` exclude one another",
                 "ask for one of them");
  }
  if ((checkpoint || directory || is_log(args.file)) && flags > 0) {
    return fault("`" + args.file + "` is a " +
                     (checkpoint  ? "checkpoint"
                      : directory ? "directory"
                                  : "log") +
                     ": it has nothing for `" + flag + "`",
                 "leave `" + flag + "` out, or give a model or a plan");
  }
  if (const std::string deciding = deciding_flag(options); checkpoint && !deciding.empty()) {
    return fault("`" + deciding + "` (or its XRUN_ variable) has no effect on the checkpoint `" + args.file + "`",
                 "leave `" + deciding + "` out");
  }
  if (is_plan_file(args.file) && !args.emit.empty() && args.emit != "plan" && args.emit != "program") {
    return fault("`" + args.file + "` is a plan: it does not hold what `--emit " + args.emit + "` prints",
                 "give the model file");
  }
  if (!args.diff.empty() && !is_plan_file(args.file)) {
    return fault("`--diff` compares two plan files, but `" + args.file + "` is a model",
                 "plan it and compare: xrun plan " + args.file + " --diff " + args.diff);
  }
  if (args.write_defaults && is_plan_file(args.file)) {
    return fault("`" + args.file + "` is a plan: it does not hold the text of the model", "give the model file");
  }
  GlobalOptions others = options;
  others.run.clear();
  if (const std::string deciding = deciding_flag(others); args.write_defaults && !deciding.empty()) {
    return fault(
        "`" + deciding + "` (or its XRUN_ variable) has no effect on `--explicit`, which shows what the file says",
        "leave `" + deciding + "` out");
  }
  const std::string& format = options.format;
  if (is_plan_format(format) && (flags > 0 || checkpoint || directory || is_log(args.file))) {
    return flags > 0
               ? fault("`--format " + format + "` writes the whole plan, but `" + flag + "` asks for a part of it",
                       "leave `" + flag + "` out")
               : fault("`" + args.file + "` is not a plan, so it has no form `" + format + "`",
                       "give a model or a plan, or ask for text or json");
  }
  if (!args.measured.empty() && (flags > 0 || format == "csv" || !is_plan_file(args.file))) {
    return fault("`--measured` lays a run over a plan file", flags > 0 ? "leave `" + flag + "` out"
                                                             : format == "csv"
                                                                 ? "ask for text, json, html or perfetto"
                                                                 : "give the plan of the run: xrun show FILE.xplan");
  }
  if (json && args.write_defaults) {
    return fault("`--explicit` prints a model file, not JSON", "leave `--format json` out");
  }
  if (json && !args.emit.empty() && args.emit != "plan") {
    return fault("`--emit " + args.emit + "` prints text, not JSON", "leave `--format json` out");
  }
  if (args.depth > 0 && args.table != "layers") {
    return fault("`--depth` has no effect without `--table layers`", "add it, or leave `--depth` out");
  }
  return {};
}

Outcome<int> show_log(const ShowArgs& args, const Console& console) {
  XRUN_ASSIGN(const auto log, read_log(args.file));
  console.out(console.json() ? log_json(log)
                             : log_text(printable_line(args.file), log, console.columns(), console.unicode()));
  return 0;
}

Outcome<int> show_checkpoint(const ShowArgs& args, const Console& console) {
  XRUN_ASSIGN(const std::string text, runtime::describe_checkpoint(args.file, console.json()));
  console.out(text);
  std::error_code ignored;
  if (const std::string log = args.file + "/log.jsonl"; std::filesystem::exists(log, ignored) && !console.json()) {
    console.note("note: the log of the run: xrun show " + printable_line(log) + "\n");
  }
  return 0;
}

// Shows a plan file by itself: neither its sources nor its machine have to be here. Plans of earlier versions keep no
// model, so that theirs is made again from its sources.
Outcome<int> show_plan_file(const GlobalOptions& options, const ShowArgs& args, const Console& console) {
  XRUN_TRY(check_plan_flags(args.file, options));
  XRUN_ASSIGN(const planner::Plan plan, planner::load_plan(args.file, &ops::registry()));
  if (!args.diff.empty()) {
    XRUN_ASSIGN(const planner::Plan other, planner::load_plan(args.diff));
    console.out(console.json() ? planner::diff_json(other, plan) : planner::report_diff(other, plan));
    return 0;
  }
  if (plan.kept) {
    XRUN_TRY(print_plan(plan, plan.kept->module, options, args, console));
    return 0;
  }
  XRUN_ASSIGN(const PlannedModel planned, plan_from(args.file, options, console, true));
  XRUN_TRY(print_plan(planned.plan, planned.prepared.training, options, args, console));
  return 0;
}

Outcome<int> show_plan(const GlobalOptions& options, const ShowArgs& args, const Console& console) {
  if (is_plan_file(args.file)) {
    return show_plan_file(options, args, console);
  }
  XRUN_ASSIGN(PlannedModel planned, plan_from(args.file, options, console, true));
  XRUN_TRY(with_sources(explain_choices(planned), planned.model.sources));
  planned.plan.kept = planner::keep_model(planned.prepared.training, planned.prepared.training_facts,
                                          planned.plan.training, planned.model.sources);
  XRUN_TRY(print_plan(planned.plan, planned.prepared.training, options, args, console));
  return 0;
}

}  // namespace

Outcome<int> run_show(const GlobalOptions& options, const ShowArgs& args) {
  const Console console(options);
  XRUN_TRY(check_request(options, args, console.json()));
  if (is_log(args.file)) {
    return show_log(args, console);
  }
  if (runtime::is_checkpoint(args.file)) {
    return show_checkpoint(args, console);
  }
  if (is_directory(args.file)) {
    XRUN_ASSIGN(const std::string text, describe_run(args.file, console));
    console.out(text);
    return 0;
  }
  if (args.write_defaults) {
    return show_explicit(options, args, console);
  }
  if (args.emit == "tokens" || args.emit == "ast") {
    return show_syntax(args, console);
  }
  if (args.emit == "checked" || args.emit == "module" || args.emit == "backward") {
    return show_module(options, args, console);
  }
  XRUN_ASSIGN(const bool shown, show_bare_model(options, args, console));
  return shown ? 0 : show_plan(options, args, console);
}

}  // namespace xrun::cli
