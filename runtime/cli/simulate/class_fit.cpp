#include "runtime/cli/simulate/class_fit.h"

#include <chrono>

#include "planner/planner.h"
#include "planner/report/classes.h"
#include "planner/search/class_fit.h"
#include "runtime/cli/model/planned.h"

namespace xrun::cli {
namespace {

// Time limit of the search for more classes.
constexpr std::chrono::seconds kFitTime(60);

}  // namespace

Outcome<std::string> class_fit_report(const std::string& file, const GlobalOptions& options, const Console& console,
                                      bool by_forms) {
  XRUN_ASSIGN(const PlannedModel model, model_from(file, options, console));
  const PreparedModel& prepared = model.prepared;
  if (!by_forms) {
    XRUN_TRY(with_sources(planner::check_gpus(prepared.training, prepared.training_facts, prepared.machine),
                          model.model.sources));
  }
  const auto begin = std::chrono::steady_clock::now();
  auto found = planner::fit_classes({prepared.training, prepared.inference, prepared.training_facts,
                                     prepared.inference_facts, prepared.machine, options.deterministic,
                                     [&] { return std::chrono::steady_clock::now() - begin < kFitTime; }});
  XRUN_ASSIGN(const auto fits, with_sources(std::move(found), model.model.sources));
  return console.json() ? planner::classes_json(fits, prepared.training, prepared.machine)
                        : planner::report_classes(fits, prepared.training, prepared.machine, console.page_columns());
}

}  // namespace xrun::cli
