// `xrun plan`: search, verify, print, write.
#include <filesystem>

#include "planner/plan_file.h"
#include "planner/report/json.h"
#include "planner/report/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/planned.h"
#include "runtime/cli/survey.h"

namespace xrun::cli {

int run_plan(const GlobalOptions& options, const PlanArgs& args) {
  const Console console(options);
  int exit = 0;
  if (is_plan_file(args.file)) {
    return console.fail({ErrorKind::kUsage,
                         "XG0620",
                         "`" + args.file + "` is a plan already",
                         "give the model file, or look inside: xrun show " + args.file,
                         {}});
  }
  auto planned = plan_from(args.file, options, console, true, exit);
  if (!planned) {
    return exit;
  }
  Phase phase(console);
  const auto survey = survey_data(*planned);
  if (!survey.ok()) {
    return console.fail(survey.error(), planned->model.sources);
  }
  console.report(survey->missing, planned->model.sources);
  planned->plan.samples = survey->samples;
  phase.done("data", survey->samples > 0 ? format_count(survey->samples) + " samples to train on" : "not here");
  const Module& module = planned->prepared.training;
  if (console.json()) {
    console.out(planner::report_json(planned->plan, module));
  } else {
    console.out(planner::report_text(planned->plan, module));
  }
  if (args.dry_run) {
    return 0;
  }
  const std::string output = args.output.empty()
                                 ? std::filesystem::path(args.file).replace_extension(".xplan").filename().string()
                                 : args.output;
  if (const Status saved = planner::save_plan(planned->plan, output); !saved.ok()) {
    return console.fail(saved.error());
  }
  if (!console.json()) {
    console.out("\n  wrote " + output + "      look inside: xrun show " + output + "      run: xrun train " + output +
                "\n");
  }
  return 0;
}

}  // namespace xrun::cli
