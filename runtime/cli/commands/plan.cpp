// `xrun plan`: searches, verifies, prints and writes a plan.
// Tests: tests/runtime/cli/commands/command_test.cpp
#include <filesystem>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "planner/cost/graph_builds.h"
#include "planner/plan_file.h"
#include "planner/planner.h"
#include "planner/report/compression.h"
#include "planner/report/diff.h"
#include "planner/report/json.h"
#include "planner/report/text.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/job/run_command.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/model/planned.h"
#include "runtime/cli/profiles/plan_profile.h"
#include "runtime/cli/simulate/class_fit.h"
#include "runtime/cli/sources/open_headers.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/device/cpu/placement.h"

namespace xrun::cli {
namespace {

constexpr int kDiffers = 10;

// Rejects flags that contradict one another or would have no effect.
Status check_request(const GlobalOptions& options, const PlanArgs& args) {
  const auto fault = [](std::string message, Text help) {
    return usage_error("XG0907", std::move(message), std::move(help));
  };
  if (args.file.empty()) {
    return fault("`xrun plan` needs a model", "name its file: xrun plan model.xgraph");
  }
  if (args.stages > 0) {
    return fault("`--stages` is for `--layer-times` without a model; the model sets the number of stages of its plan",
                 {"set it there: --set schedule.stages={}; a profile is cut by --layer-times FILE --stages {}",
                  args.stages, args.stages});
  }
  if (is_plan_file(args.file)) {
    return usage_error("XG0620", "`" + args.file + "` is a plan already",
                       "give the model file, or look inside: xrun show " + args.file);
  }
  if (!args.diff.empty() && !args.why.empty()) {
    return fault("`--diff` and `--why` exclude one another", "ask for one of them");
  }
  if (!args.fit.empty()) {
    const std::string other = !args.diff.empty()            ? "--diff"
                              : !args.why.empty()           ? "--why"
                              : !args.output.empty()        ? "-o"
                              : options.search_time.empty() ? ""
                                                            : "--search-time";
    if (!other.empty()) {
      return fault("`--fit` makes no plan of the file, but `" + other + "` needs one", "ask for one of them");
    }
    if (!args.layer_times.empty()) {
      return fault("`--layer-times` has no effect with `--fit`, which counts classes by their memory",
                   "leave one of them out");
    }
  }
  if (args.dry_run && !args.output.empty()) {
    return fault("`--dry-run` writes nothing, but `-o " + args.output + "` says where to write",
                 "leave `-o` out to look at the plan, or `--dry-run` to write it");
  }
  if (args.exit_code && args.diff.empty()) {
    return fault("`--exit-code` compares two plans, but only one is given", "name the other one: --diff old.xplan");
  }
  return {};
}

// Prints what differs from the plan of --diff. Returns the exit code.
Outcome<int> print_diff(const planner::Plan& plan, const PlanArgs& args, const Console& console) {
  XRUN_ASSIGN(const planner::Plan old, planner::load_plan(args.diff));
  console.out(console.json() ? planner::diff_json(old, plan) : planner::report_diff(old, plan));
  return args.exit_code && !planner::diff_plans(old, plan).empty() ? kDiffers : 0;
}

// Prints the reasons for the decision of --why.
Outcome<int> print_why(const planner::Plan& plan, const PlanArgs& args, const Console& console) {
  const std::string text = planner::report_why(plan, args.why);
  if (text.empty()) {
    const auto known = planner::why_keys(plan);
    return usage_error("XG0908", {"the plan has no decision `{}`", args.why},
                       known.empty() ? "" : fmt::format("one of: {}", fmt::join(known, ", ")));
  }
  console.out(console.json() ? planner::why_json(plan, args.why) : text);
  return 0;
}

// Prints the plan, or the answer to --diff or --why. Returns the exit code.
Outcome<int> print_plan(const planner::Plan& plan, const Module& module, const PlanArgs& args, const Console& console) {
  if (!args.diff.empty()) {
    return print_diff(plan, args, console);
  }
  if (!args.why.empty()) {
    return print_why(plan, args, console);
  }
  if (console.json()) {
    console.out(planner::report_json(plan, module));
    return 0;
  }
  console.out(planner::report_text(plan, module, console.page_columns()));
  // A declared cluster may be another machine, so the topology of this machine is not used for it.
  const bool is_other = module.cluster.cores > 0 || plan.machine.nodes() > 1 || plan.machine.has_gpus();
  const runtime::CpuTopology topology = is_other ? runtime::CpuTopology() : runtime::read_cpu_topology();
  const auto devices = runtime::place_devices(topology, plan.training.threads);
  if (const std::string places = runtime::describe_placement(topology, devices); !places.empty()) {
    console.out("\n  nodes      " + places + "\n");
  }
  return 0;
}

// Adds the sizes of the data to the plan, prints warnings about the data and the plan, and checks the memory of both.
Outcome<void> add_data(PlannedModel& planned, const Console& console) {
  const SourceMap& sources = planned.model.sources;
  Phase phase(console);
  XRUN_ASSIGN(const DataHeaders headers, with_sources(open_headers(planned), sources));
  planned.plan.samples = headers.samples;
  planned.plan.decoding = headers.memory.decoding.bytes;
  Diagnostics warnings = headers.warnings;
  if (auto slow = planner::slow_graphs(planned.plan, planned.prepared.training)) {
    warnings.add(std::move(*slow));
  }
  if (auto unlike = planner::unlike_nodes(planned.plan, planned.prepared.training)) {
    warnings.add(std::move(*unlike));
  }
  console.report(warnings, sources);
  XRUN_TRY(with_sources(check_memory(planned, headers.memory), sources));
  phase.done("data", headers.samples > 0 ? counted(headers.samples, "sample") + " to train on" : "not here");
  return {};
}

// Returns the file to which the plan is written; empty if it is not. With `--diff` or `--why`, only `-o` asks for it.
std::string output_of(const PlanArgs& args) {
  const bool asked = !args.diff.empty() || !args.why.empty();
  return args.dry_run ? ""
         : asked || !args.output.empty()
             ? args.output
             : std::filesystem::path(args.file).replace_extension(".xplan").filename().string();
}

Status write_plan(const planner::Plan& plan, const std::string& output, const Console& console) {
  XRUN_TRY(planner::save_plan(plan, output));
  if (!console.json()) {
    const std::string shown = printable_line(output);
    console.out("\n  wrote " + shown + "      look inside: xrun show " + shown + "      run: xrun train " + shown +
                "\n");
  }
  return {};
}

Outcome<int> make_plan(const GlobalOptions& options, const PlanArgs& args) {
  const Console console(options);
  XRUN_TRY(check_request(options, args));
  if (!args.fit.empty()) {
    XRUN_ASSIGN(const std::string report, class_fit_report(args.file, options, console, false));
    console.out(report);
    return 0;
  }
  const std::string output = output_of(args);
  if (!output.empty()) {
    XRUN_TRY(planner::check_plan_place(output));
  }
  XRUN_ASSIGN(PlannedModel planned, plan_from(args.file, options, console, true));
  XRUN_TRY(with_sources(explain_choices(planned), planned.model.sources));
  XRUN_TRY(add_data(planned, console));
  XRUN_ASSIGN(const int exit, print_plan(planned.plan, planned.prepared.training, args, console));
  if (!output.empty()) {
    planned.plan.kept = planner::keep_model(planned.prepared.training, planned.prepared.training_facts,
                                            planned.plan.training, planned.model.sources);
    XRUN_TRY(write_plan(planned.plan, output, console));
  }
  return exit;
}

}  // namespace

// If a launcher started several processes, rank 0 plans for the hosts of all ranks, and the others wait for it.
Outcome<int> run_plan(const GlobalOptions& options, const PlanArgs& args) {
  if (!args.layer_times.empty() && args.file.empty()) {
    return plan_profile(options, args);
  }
  GlobalOptions planned = options;
  planned.layer_times = args.layer_times;
  return run_for_job(planned, "plan",
                     [&](const GlobalOptions& options_of_job) { return make_plan(options_of_job, args); });
}

}  // namespace xrun::cli
