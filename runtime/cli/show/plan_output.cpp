// Tests: tests/cases/plans_alone_test.cpp
#include "runtime/cli/show/plan_output.h"

#include "planner/report/json.h"
#include "planner/report/page/html_page.h"
#include "planner/report/page/instructions_json.h"
#include "planner/report/page/measured_report.h"
#include "planner/report/page/trace.h"
#include "planner/report/text.h"
#include "runtime/formats/files.h"

namespace xrun::cli {
namespace {

// The largest file of measured times: a plan has at most a few million instructions.
constexpr Bytes kMostMeasured = 256 * kMiB;

std::string describe_plan(const planner::Plan& plan, const Module& module, const ShowArgs& args, bool json,
                          const Console& console) {
  if (args.emit == "program") {
    return planner::print(plan.training, module.graph);
  }
  if (args.gantt) {
    return json ? planner::gantt_json(plan) : planner::report_gantt(plan, module, console.columns());
  }
  if (!args.table.empty()) {
    return json ? planner::table_json(plan, module, args.table, args.depth)
                : planner::report_table(plan, module, args.table, args.depth);
  }
  return json ? planner::report_json(plan, module) : planner::report_text(plan, module, console.page_columns());
}

}  // namespace

bool is_plan_format(const std::string& format) { return format == "html" || format == "csv" || format == "perfetto"; }

Result<std::optional<planner::MeasuredTimes>> measured_of(const planner::Plan& plan, const ShowArgs& args) {
  if (args.measured.empty()) {
    return std::optional<planner::MeasuredTimes>();
  }
  XRUN_ASSIGN(const auto bytes, runtime::read_file(args.measured, kMostMeasured));
  XRUN_ASSIGN(planner::MeasuredTimes measured,
              planner::read_measured({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, args.measured, plan));
  return std::optional(std::move(measured));
}

Status print_plan(const planner::Plan& plan, const Module& module, const GlobalOptions& options, const ShowArgs& args,
                  const Console& console) {
  XRUN_ASSIGN(const auto measured, measured_of(plan, args));
  const planner::MeasuredTimes* times = measured ? &*measured : nullptr;
  if (options.format == "html") {
    console.out_json(planner::html_page(plan, module, times));
  } else if (options.format == "perfetto") {
    console.out_json(planner::perfetto_trace(plan, times));
  } else if (options.format == "csv") {
    console.out_json(planner::instructions_csv(plan));
  } else if (times != nullptr) {
    console.out(console.json() ? planner::measured_gantt_json(plan, *times) : planner::measured_text(plan, *times));
  } else {
    console.out(describe_plan(plan, module, args, console.json(), console));
  }
  return {};
}

}  // namespace xrun::cli
