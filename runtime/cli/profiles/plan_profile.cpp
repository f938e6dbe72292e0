#include "runtime/cli/profiles/plan_profile.h"

#include <string>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "planner/profiles/cuts_report.h"
#include "runtime/formats/files.h"

namespace xrun::cli {
namespace {

constexpr Bytes kMostBytes = 256 * kMiB;

// The first flag that would have no effect on a profile; empty: no such flag.
std::string idle_flag(const GlobalOptions& options, const PlanArgs& args) {
  const std::pair<bool, const char*> flags[] = {
      {!args.output.empty(), "-o"},
      {args.dry_run, "--dry-run"},
      {!args.diff.empty(), "--diff"},
      {args.exit_code, "--exit-code"},
      {!args.why.empty(), "--why"},
      {!args.fit.empty(), "--fit"},
      {!options.search_time.empty(), "--search-time"},
      {!options.sets.empty(), "--set"},
      {!options.run.empty(), "--run"},
      {!options.cluster.empty(), "--cluster"},
      {!options.schedule.empty(), "--schedule"},
      {options.devices != 0 || options.gpus, "--devices"},
      {options.threads != 0, "--threads"},
      {options.deterministic, "--deterministic"},
      {options.cost != GlobalOptions().cost, "--cost"},
  };
  for (const auto& [given, flag] : flags) {
    if (given) {
      return flag;
    }
  }
  return "";
}

Status check_flags(const GlobalOptions& options, const PlanArgs& args) {
  if (const std::string flag = idle_flag(options, args); !flag.empty()) {
    return usage_error("XG0907", {"`{}` has no effect with `--layer-times` and no model, which cuts a profile", flag},
                       "leave it out: xrun plan --layer-times FILE --stages 8");
  }
  if (args.stages < 1) {
    return usage_error("XG0907", "`--layer-times` without a model needs the number of stages",
                       "add it: --stages 8, or name the model whose layers have these times");
  }
  return {};
}

}  // namespace

Outcome<int> plan_profile(const GlobalOptions& options, const PlanArgs& args) {
  const Console console(options);
  XRUN_TRY(check_flags(options, args));
  XRUN_ASSIGN(const auto bytes, runtime::read_file(args.layer_times, kMostBytes + 1));
  if (std::ssize(bytes) > kMostBytes) {
    return content_error("XG0631", {"{} has more than 256 MiB", args.layer_times},
                         "name a profile in the format of PipeDream");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  XRUN_ASSIGN(const planner::LayerProfile profile, planner::parse_profile(text, args.layer_times));
  if (args.stages > std::ssize(profile.layers)) {
    return content_error("XG0602", {"{} stages for {}", args.stages, counted(std::ssize(profile.layers), "layer")},
                         {"ask for at most {}: --stages {}", profile.layers.size(), profile.layers.size()});
  }
  const planner::GraphCuts cuts = planner::cut_graph(profile, args.stages);
  console.out(console.json() ? planner::cuts_json(profile, cuts, args.layer_times)
                             : planner::report_cuts(profile, cuts, args.layer_times, console.page_columns()));
  return 0;
}

}  // namespace xrun::cli
