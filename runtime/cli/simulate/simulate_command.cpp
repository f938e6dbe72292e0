// Tests: tests/cases/simulate_test.cpp
#include "runtime/cli/simulate/simulate_command.h"

#include <fmt/format.h>
#include <span>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "lang/elaborate/facts.h"
#include "planner/report/sweep/sweep_page.h"
#include "planner/report/sweep/sweep_text.h"
#include "runtime/cli/model/plan_flags.h"
#include "runtime/cli/simulate/class_fit.h"
#include "runtime/cli/simulate/key_fit.h"
#include "runtime/cli/simulate/point_planner.h"
#include "runtime/cli/simulate/sweep_axis.h"
#include "runtime/cli/simulate/sweep_key.h"
#include "runtime/cli/simulate/wall_command.h"

namespace xrun::cli {
namespace {

constexpr const char* kClasses = "classes";
constexpr const char* kByTheClock = "by the clock: ";  // the first words of the text of `--wall`

Status check_request(const GlobalOptions& options, const SimulateArgs& args) {
  XRUN_TRY(check_wall(options, args));
  if (is_plan_file(args.file) && !args.wall) {
    return usage_error(
        "XG0620", {"`{}` is a plan, and `xrun simulate` makes plans of a model", args.file},
        {"give the model file, look inside: xrun show {}, or run it by the clock: add --wall", args.file});
  }
  if (!args.fit.empty() && !args.sweeps.empty()) {
    return usage_error("XG0639", "`--fit` and `--sweep` exclude one another",
                       "ask for one of them; a key that `--fit` shall not vary is set by --set KEY=VALUE");
  }
  if (options.gpus) {
    return usage_error("XG0636", "`--devices cuda` names GPUs of this machine, and `xrun simulate` uses none",
                       "name their kind in a cluster instead: --set cluster.node.gpu=h100 --set cluster.node.gpus=8");
  }
  return {};
}

// The file of -o: how its earlier versions are recognised, so that no other file is overwritten. `text` and `csv`: the
// beginnings of files in these forms; they outlive the result.
FileKind kind_of(const std::string& format, std::string_view text, std::string_view csv = "fastest,") {
  return {.name = "simulation in this form",
          .code = "XG0901",
          .magic = format == "html"   ? std::string_view("<!DOCTYPE html>")
                   : format == "csv"  ? csv
                   : format == "json" ? std::string_view("{")
                                      : text};
}

// Reads the axes and checks their values. The keys of the result are paths.
Outcome<std::vector<SweepAxis>> read_axes(const SimulateArgs& args, const std::vector<std::string>& keys) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : args.sweeps) {
    XRUN_ASSIGN(SweepAxis axis, parse_axis(text));
    XRUN_ASSIGN(axis.key, find_key(axis.key, keys, "--sweep"));
    for (const SweepAxis& other : axes) {
      if (other.key == axis.key) {
        return usage_error("XG0639", {"`--sweep {}` is there twice", axis.key}, "give all values in one of the two");
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

// Plans all points. Errors: if no point has a plan, the whole error of the first one.
Outcome<planner::Sweep> sweep_points(PointPlanner& planner, const std::vector<SweepAxis>& axes) {
  XRUN_ASSIGN(const size_t count, count_points(axes));
  std::vector<std::vector<std::string>> values;
  for (const SweepAxis& axis : axes) {
    values.push_back(axis.values);
  }
  XRUN_TRY(planner.check_values(values));
  planner::Sweep sweep;
  const PointEffort effort = count == 1 ? PointEffort::kSearchAndFixes : PointEffort::kSearch;
  for (size_t p = 0; p < count; ++p) {
    const std::string progress = count > 1 ? fmt::format("point {} of {}", p + 1, count) : "";
    XRUN_ASSIGN(planner::SweepPoint point, planner.plan(values_at(axes, p), progress, effort));
    sweep.points.push_back(std::move(point));
  }
  if (!sweep.first() && count > 1) {
    XRUN_TRY(planner.plan(values_at(axes, 0), "no point has a plan: changes with which the first one fits",
                          PointEffort::kSearchAndFixes));
  }
  if (!sweep.first()) {
    return planner.refusal();
  }
  return sweep;
}

Status write_result(const std::string& text, const std::string& path, const GlobalOptions& options,
                    const FileKind& kind, const Console& console) {
  if (path.empty()) {
    options.format == "text" ? console.out(text) : console.out_json(text);
    return {};
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  XRUN_TRY(replace_file(path, Pieces(&bytes, 1), kind));
  console.note("wrote " + path + "\n");
  return {};
}

std::string text_of(const planner::Sweep& sweep, const std::string& format, int columns) {
  return format == "html"   ? planner::sweep_page(sweep)
         : format == "csv"  ? planner::sweep_csv(sweep)
         : format == "json" ? planner::sweep_json(sweep)
                            : planner::report_sweep(sweep, columns);
}

// Whether `--fit` asks how many classes a head can have: without a range, in a model with a head.
bool fits_classes(const FitRange& range, const Module& module) {
  return range.key == kClasses && !range.is_given && !module.graph.heads.empty();
}

Outcome<int> print_class_fit(const GlobalOptions& options, const SimulateArgs& args, const Console& console) {
  if (options.format == "html" || options.format == "csv") {
    return usage_error("XG0639", {"`--fit classes` has no report in the form {}", options.format},
                       "ask for text or JSON, or give a range: --fit classes=1000..1_000_000");
  }
  XRUN_ASSIGN(const std::string report, class_fit_report(args.file, options, console, true));
  XRUN_TRY(write_result(report, args.output, options, kind_of(options.format, "classes that fit"), console));
  return 0;
}

Outcome<int> print_wall(const GlobalOptions& options, const SimulateArgs& args, const Console& console) {
  const FileKind kind = kind_of(options.format, kByTheClock, "step,");
  if (!args.output.empty()) {
    XRUN_TRY(check_place(args.output, kind));
  }
  XRUN_ASSIGN(const std::string report, wall_report(options, args, console));
  XRUN_TRY(write_result(report, args.output, options, kind, console));
  return 0;
}

}  // namespace

Outcome<int> run_simulate(const GlobalOptions& options, const SimulateArgs& args) {
  const Console console(options);
  XRUN_TRY(check_request(options, args));
  XRUN_TRY(check_working_directory(args.file));
  if (args.wall) {
    return print_wall(options, args, console);
  }
  lang::Facts facts;
  XRUN_ASSIGN(const LoadedModel model, load_model(args.file, options, console, false, nullptr, &facts));
  const Module& module = model.file.module;
  const std::vector<std::string> keys = sweep_keys(*facts.main, module);
  FitRange range;
  if (!args.fit.empty()) {
    XRUN_ASSIGN(range, parse_fit(args.fit));
    if (fits_classes(range, module)) {
      return print_class_fit(options, args, console);
    }
  }
  const FileKind kind = kind_of(options.format, module.model);
  if (!args.output.empty()) {
    XRUN_TRY(check_place(args.output, kind));
  }
  planner::Sweep sweep;
  if (!args.fit.empty()) {
    XRUN_ASSIGN(const std::string key, find_key(range.key, keys, "--fit"));
    PointPlanner planner(args.file, options, {key}, console);
    XRUN_ASSIGN(sweep, fit_key(planner, range));
    sweep.keys = {key};
    sweep.costs = planner.costs();
  } else {
    XRUN_ASSIGN(const std::vector<SweepAxis> axes, read_axes(args, keys));
    for (const SweepAxis& axis : axes) {
      sweep.keys.push_back(axis.key);
    }
    PointPlanner planner(args.file, options, sweep.keys, console);
    XRUN_ASSIGN(planner::Sweep made, sweep_points(planner, axes));
    sweep.points = std::move(made.points);
    sweep.costs = planner.costs();
  }
  sweep.model = module.model;
  XRUN_TRY(write_result(text_of(sweep, options.format, args.output.empty() ? console.page_columns() : 0), args.output,
                        options, kind, console));
  return 0;
}

}  // namespace xrun::cli
